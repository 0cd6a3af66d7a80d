"""Scaled dot-product attention (Vaswani et al. 2017, equation 1; causal as in GPT-1 section 3.1)."""

import math
from typing import NamedTuple

from minigpt.device.arrays import Array, array_module
from minigpt.errors import InputError
from minigpt.ops import masks
from minigpt.ops.random_keys import Key, keep_mask


class AttentionCache(NamedTuple):
    q: Array
    k: Array
    v: Array
    p: Array
    scale: float
    bias_shape: tuple[int, ...] | None
    rate: float
    key: Key | None


def attention_forward(q, k, v, bias=None, *, mask=None, scale=None, rate=0.0, key=None):
    """q (*,T,D), k (*,S,D), v (*,S,D), [bias (*,T,S)] -> out (*,T,D)

    out = A v,   A = dropout(P),   P = softmax(q k^T scale + bias), where the softmax sees only what the mask allows.

    bias: optional; anything that broadcasts to (*,T,S), such as a number for each head and distance (Raffel et al.
    2020, section 2.1). mask: boolean, broadcast to (*,T,S), True where query t may see key s. None is causal, counted
    from the end: the last query sees all S keys. A query that may see nothing gets 0. scale: 1/sqrt(D) by default.
    rate, key: dropout on the probabilities; key=None is evaluation.
    Raises InputError for a mask that is not boolean, and for a mask or a bias that does not broadcast.
    """
    xp = array_module(q, k, v)
    t, d = q.shape[-2:]
    keys = k.shape[-2]
    if mask is None:
        mask = causal_mask(t, keys, xp)
    if scale is None:
        scale = 1 / math.sqrt(d)
    scale = float(scale)  # a NumPy number would make float32 arrays float64

    s = q @ transposed(k)
    s = s * scale
    problem = masks.problem(mask, bias, s.shape)
    if problem:
        raise InputError(problem)
    if bias is not None:
        s = s + bias
    s = xp.where(mask, s, -math.inf)
    m = _largest(s, xp)
    e = xp.exp(s - m)
    z = e.sum(axis=-1, keepdims=True)
    z = xp.where(z == 0, 1, z)  # 0: a query that may see nothing
    p = e / z
    a = _dropout(p, rate, key, xp)
    out = a @ v
    bias_shape = getattr(bias, "shape", None)
    cache = AttentionCache(q, k, v, p, scale, bias_shape, rate, key)
    return out, cache


def attention_backward(dout, cache: AttentionCache):
    """dout (*,T,D) -> dq (*,T,D), dk (*,S,D), dv (*,S,D), [dbias (*,T,S)]

    Where the mask hides a key, p is 0, and with it ds: nothing else is needed to keep the future out of the gradient.
    """
    q, k, v, p, scale, bias_shape, rate, key = cache
    xp = array_module(q)
    # out = a @ v
    a = _dropout(p, rate, key, xp)
    da = dout @ transposed(v)
    dv = transposed(a) @ dout
    # a = dropout(p): the same elements, by the same key
    dp = _dropout(da, rate, key, xp)
    # p = softmax(s)
    average = (p * dp).sum(axis=-1, keepdims=True)
    ds = p * (dp - average)
    # s = s + bias
    dbias = None
    if bias_shape is not None:
        dbias = sum_to(bias_shape, ds)
    # s = q @ k^T * scale
    dq = ds @ k
    dq = dq * scale
    dk = transposed(ds) @ q
    dk = dk * scale
    return dq, dk, dv, dbias


def causal_mask(t: int, s: int, xp) -> Array:
    """(T,S) boolean: query i is the one at position S - T + i, and sees the keys up to its own position."""
    position = xp.arange(t) + (s - t)
    return xp.arange(s) <= position[:, None]


def sum_to(shape, gradient):
    """gradient (*,T,S) -> an array of this shape, which was broadcast to (*,T,S)

    A number that was used in several places gets the sum of their gradients.
    """
    while gradient.ndim > len(shape):
        gradient = gradient.sum(axis=0)
    for axis, size in enumerate(shape):
        if size == 1:
            gradient = gradient.sum(axis=axis, keepdims=True)
    return gradient


def transposed(x):
    """x (*,T,D) -> (*,D,T), a view."""
    return x.swapaxes(-1, -2)


def _largest(s, xp):
    """The largest score of each row, or 0 where the mask leaves none."""
    m = s.max(axis=-1, keepdims=True)
    m = xp.where(m == -math.inf, 0, m)
    return m.astype(s.dtype)


def _dropout(p, rate, key, xp):
    if key is None or rate == 0:
        return p
    stretch = 1 / (1 - rate)
    keep = keep_mask(key, rate, p.shape, xp)
    return p * keep * stretch

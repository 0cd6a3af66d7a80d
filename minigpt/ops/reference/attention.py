"""Scaled dot-product attention (Vaswani et al. 2017, equation 1; causal as in GPT-1 section 3.1)."""

import math
from typing import NamedTuple

from minigpt.device.arrays import Array, array_module
from minigpt.ops.keys import Key, keep_mask


class AttentionCache(NamedTuple):
    q: Array
    k: Array
    v: Array
    p: Array
    rate: float
    key: Key | None


def attention_forward(q, k, v, *, mask=None, rate=0.0, key=None):
    """q (*,T,D), k (*,S,D), v (*,S,D) -> out (*,T,D)

    out = A v,   A = dropout(P),   P = softmax(q k^T / sqrt(D)), where the softmax sees only what the mask allows.

    mask: boolean, broadcast to (*,T,S), True where query t may see key s. None is causal, counted from the end: the
    last query sees all S keys. A query that may see nothing gets 0. rate, key: dropout on the probabilities; key=None
    is evaluation.
    """
    xp = array_module(q, k, v)
    scale = 1 / math.sqrt(q.shape[-1])
    if mask is None:
        mask = causal_mask(q.shape[-2], k.shape[-2], xp)
    s = q @ k.swapaxes(-1, -2) * scale
    s = xp.where(mask, s, -math.inf)
    e = xp.exp(s - _largest(s, xp))
    z = e.sum(axis=-1, keepdims=True)
    p = e / xp.where(z == 0, 1, z)  # z == 0: a query that may see nothing
    a = _dropout(p, rate, key, xp)
    out = a @ v
    return out, AttentionCache(q, k, v, p, rate, key)


def attention_backward(dout, cache: AttentionCache):
    """dout (*,T,D) -> dq (*,T,D), dk (*,S,D), dv (*,S,D)

    Where the mask hides a key, p is 0, and with it ds: nothing else is needed to keep the future out of the gradient.
    """
    q, k, v, p, rate, key = cache
    xp = array_module(q)
    scale = 1 / math.sqrt(q.shape[-1])
    # out = a @ v
    da = dout @ v.swapaxes(-1, -2)
    dv = _dropout(p, rate, key, xp).swapaxes(-1, -2) @ dout
    # a = dropout(p): the same elements, by the same key
    dp = _dropout(da, rate, key, xp)
    # p = softmax(s)
    ds = p * (dp - (p * dp).sum(axis=-1, keepdims=True))
    # s = q @ k^T * scale
    dq = ds @ k * scale
    dk = ds.swapaxes(-1, -2) @ q * scale
    return dq, dk, dv


def causal_mask(t: int, s: int, xp) -> Array:
    """(T,S) boolean: query i is the one at position S - T + i, and sees the keys up to its own position."""
    return xp.arange(s) <= xp.arange(t)[:, None] + (s - t)


def _largest(s, xp):
    """The largest score of each row, or 0 where the mask leaves none."""
    m = s.max(axis=-1, keepdims=True)
    return xp.where(m == -math.inf, 0, m).astype(s.dtype)


def _dropout(p, rate, key, xp):
    if key is None or rate == 0:
        return p
    return p * keep_mask(key, rate, p.shape, xp) * (1 / (1 - rate))

"""Self-attention and cross-attention: heads are split and merged here; attention.py computes with them."""

import math
from typing import NamedTuple

import numpy as np

from minigpt.device.arrays import Array
from minigpt.device.threads import share
from minigpt.ops import masks
from minigpt.ops.fast.attention import Rules, attend, attend_backward, split
from minigpt.ops.fast.pieces import accepts


class SelfAttentionCache(NamedTuple):
    heads: tuple[Array, Array, Array]
    out: Array
    lse: Array
    rules: Rules
    n_kv_head: int
    bias_shape: tuple[int, ...] | None


def self_attention_supports(
    qkv, n_head, bias=None, *, n_kv_head=None, mask=None, scale=None, rate=0.0, key=None, past=None, grad=True
) -> str | None:
    """A past is taken only where nothing is learnt from it. Wrong masks are left to the reference, which raises."""
    if not qkv.size:
        return "it takes one row or more"
    b, t, _ = qkv.shape
    s = t
    given = [qkv, *_arrays(bias)]
    if past is not None:
        if grad or (rate and key):
            return "it takes a past only without gradients and without dropout"
        s += past[0].shape[2]
        given += past
    scores = b, n_head, t, s
    return accepts(*given) or masks.problem(mask, bias, scores)


def self_attention_forward(
    qkv, n_head, bias=None, *, n_kv_head=None, mask=None, scale=None, rate=0.0, key=None, past=None, grad=True
):  # fmt: skip
    """qkv (B,T,3C), [bias (B,NH,T,T)] -> out (B,T,C)

    Kept are q times the scale, k and v of each head, out and lse. Keys and values that a group of heads shares are
    repeated for each of them, but for those of the past.
    """
    n_kv_head = n_kv_head or n_head
    q, k, v = _unpacked(qkv, n_head, n_kv_head)
    scale = _scale(scale, q.shape[-1])
    if past is not None:
        return _beside_past(q, k, v, scale, bias, mask, *past), None
    group = n_head // n_kv_head
    if group > 1:
        k = k.repeat(group, axis=1)
        v = v.repeat(group, axis=1)
    rules = _rules(scale, mask is None, mask, bias, rate, key)
    out, lse, heads = attend(q, k, v, rules)
    cache = SelfAttentionCache(heads, out, lse, rules, n_kv_head, _shape_of(bias))
    return out, cache if grad else None


def self_attention_backward(dout, cache: SelfAttentionCache):
    """dout (B,T,C) -> dqkv (B,T,3C), [dbias (B,NH,T,T)]"""
    heads, out, lse, rules, n_kv_head, bias_shape = cache
    b, n_head, t, d = heads[0].shape
    dqkv = np.empty((b, t, (n_head + 2 * n_kv_head) * d), dout.dtype)
    dq, dk, dv = _unpacked(dqkv, n_head, n_kv_head)
    if n_kv_head == n_head:
        dbias = attend_backward(dout, out, lse, heads, (dq, dk, dv), rules)
        return dqkv, _in_shape(dbias, bias_shape)
    of_queries = np.empty_like(heads[1]), np.empty_like(heads[2])
    dbias = attend_backward(dout, out, lse, heads, (dq, *of_queries), rules)
    for gradient, of_each in zip((dk, dv), of_queries, strict=True):
        groups = of_each.reshape(b, n_kv_head, -1, t, d)
        groups.sum(axis=2, out=gradient)
    return dqkv, _in_shape(dbias, bias_shape)


def _unpacked(qkv, n_head, n_kv_head):
    """qkv (B,T,(NH+2G)D) -> q (B,NH,T,D), k and v (B,G,T,D): views, so what is written there is in qkv"""
    b, t, _ = qkv.shape
    heads = qkv.reshape(b, t, n_head + 2 * n_kv_head, -1).swapaxes(1, 2)
    first_value = n_head + n_kv_head
    return heads[:, :n_head], heads[:, n_head:first_value], heads[:, first_value:]


class CrossAttentionCache(NamedTuple):
    heads: tuple[Array, Array, Array]
    out: Array
    lse: Array
    rules: Rules
    bias_shape: tuple[int, ...] | None


def cross_attention_supports(
    q, kv, n_head, bias=None, *, mask=None, scale=None, rate=0.0, key=None, grad=True
) -> str | None:
    """Wrong masks are left to the reference, which raises the error."""
    if not q.size:
        return "it takes one row or more"
    scores = len(q), n_head, q.shape[1], kv.shape[1]
    return accepts(q, kv, *_arrays(bias)) or masks.problem(mask, bias, scores)


def cross_attention_forward(
    q, kv, n_head, bias=None, *, mask=None, scale=None, rate=0.0, key=None, grad=True
):  # fmt: skip
    """q (B,T,C), kv (B,S,2C), [bias (B,NH,T,S)] -> out (B,T,C)"""
    scale = _scale(scale, q.shape[-1] // n_head)
    rules = _rules(scale, False, mask, bias, rate, key)
    k, v = split(kv, n_head, parts=2)
    out, lse, heads = attend(split(q, n_head), k, v, rules)
    cache = CrossAttentionCache(heads, out, lse, rules, _shape_of(bias))
    return out, cache if grad else None


def cross_attention_backward(dout, cache: CrossAttentionCache):
    """dout (B,T,C) -> dq (B,T,C), dkv (B,S,2C), [dbias (B,NH,T,S)]"""
    heads, out, lse, rules, bias_shape = cache
    b, t, c = dout.shape
    n_head = lse.shape[1]
    keys = heads[1].shape[2]
    dq = np.empty((b, t, c), dout.dtype)
    dkv = np.empty((b, keys, 2 * c), dout.dtype)
    dk, dv = split(dkv, n_head, parts=2)
    dbias = attend_backward(dout, out, lse, heads, (split(dq, n_head), dk, dv), rules)
    return dq, dkv, _in_shape(dbias, bias_shape)


def _beside_past(q, k, v, scale, bias, mask, k_past, v_past):
    """q (B,NH,T,D), k and v (B,G,T,D), bias and mask (*,T,P+T) or None, k_past and v_past (B,G,P,D) -> out (B,T,C)

    The past is read where it lies: the new keys and values are met beside it, and not put behind a copy of it. The
    queries of a group of heads stand below each other, as rows that meet the same keys. What lies before the first key
    that the mask shows, as of a window that slides, is not read.
    """
    k_past, v_past, bias, mask = _from_the_first_seen(k_past, v_past, bias, mask)
    b, n_head, t, d = q.shape
    n_kv_head = k.shape[1]
    n = k_past.shape[2]
    rows = n_head // n_kv_head * t
    out = np.empty((b, n_kv_head, rows, d), q.dtype)
    q = np.multiply(q, q.dtype.type(scale), order="C").reshape(out.shape)
    if mask is None and t > 1:
        mask = np.tri(t, n + t, n, dtype=bool)
    of_heads = b, n_head, t, n + t
    of_groups = b, n_kv_head, rows, n + t
    hidden = None if mask is None else np.broadcast_to(~mask, of_heads).reshape(of_groups)
    bias = None if bias is None else np.broadcast_to(bias, of_heads).reshape(of_groups)
    all_seen = hidden is None and bias is None

    def groups(h):
        few = h.stop - h.start
        s = np.empty((b, few, rows, n + t), q.dtype)
        before = s[..., :n]
        new = s[..., n:]
        queries = q[:, h]
        np.matmul(queries, k_past[:, h].swapaxes(-1, -2), out=before)
        np.matmul(queries, k[:, h].swapaxes(-1, -2), out=new)
        if bias is not None:
            s += bias[:, h]
        if hidden is not None:
            s[hidden[:, h]] = -math.inf
        largest = s.max(axis=-1, keepdims=True)
        if not all_seen:
            np.maximum(largest, np.finfo(s.dtype).min, out=largest)  # -inf: a query that may see nothing
        s -= largest
        np.exp(s, out=s)
        z = s.sum(axis=-1, keepdims=True)
        if not all_seen:
            np.maximum(z, np.finfo(s.dtype).tiny, out=z)
        o = out[:, h]
        np.matmul(before, v_past[:, h], out=o)
        o += new @ v[:, h]
        o /= z

    share(groups, n_kv_head, work=k_past.size // 2)
    heads = out.reshape(b, n_head, t, d)
    return heads.swapaxes(1, 2).reshape(b, t, n_head * d)


def _from_the_first_seen(k_past, v_past, bias, mask):
    """The same without the keys of the past, from the first one on, that the mask hides from all queries."""
    if mask is None:
        return k_past, v_past, bias, mask
    rows = np.atleast_1d(mask)
    shown = rows.reshape(-1, rows.shape[-1]).any(axis=0)
    first = min(int(shown.argmax()), k_past.shape[2])
    if not first:
        return k_past, v_past, bias, mask
    if bias is not None and bias.shape[-1] > 1:
        bias = bias[..., first:]
    return k_past[:, :, first:], v_past[:, :, first:], bias, mask[..., first:]


def _rules(scale, causal, mask, bias, rate, key) -> Rules:
    if not rate:
        key = None
    mask = _with_four_axes(mask)
    bias = _with_four_axes(bias)
    return Rules(scale, causal, mask, bias, rate, key)


def _with_four_axes(array):
    """The same numbers with axes of one number in front, if any are missing; None stays None."""
    if array is None or array.ndim == 4:
        return array
    ones = (1,) * (4 - array.ndim)
    return array.reshape(ones + array.shape)


def _shape_of(bias):
    return None if bias is None else bias.shape


def _in_shape(dbias, shape):
    """The gradient without the axes that _with_four_axes has put in front; None stays None."""
    return None if dbias is None else dbias.reshape(shape)


def _scale(scale, size):
    return 1 / math.sqrt(size) if scale is None else float(scale)


def _arrays(bias) -> list:
    return [] if bias is None else [bias]

"""Self-attention on the packed projection: in tiles of queries, without what the causal mask hides."""

import functools
import math
from typing import NamedTuple

import numpy as np

from minigpt.device.arrays import Array
from minigpt.device.threads import share
from minigpt.ops.fast.pieces import accepts, share_over
from minigpt.ops.keys import Key, keep_at

TILE = 64  # queries of one tile
SAFE = 40.0  # a row whose log-sum lies between -SAFE and SAFE needs no shift: exp neither overflows nor vanishes


class SelfAttentionCache(NamedTuple):
    heads: Array
    out: Array
    lse: Array
    rate: float
    key: Key | None


def self_attention_supports(qkv, n_head, *, mask=None, rate=0.0, key=None, past=None, grad=True) -> str | None:
    """A past is taken where nothing is learnt from it, and a mask beside a past only."""
    if past is None:
        return "it takes causal masks only" if mask is not None else accepts(qkv)
    if grad or (rate and key):
        return "it takes a past only without gradients and without dropout"
    return accepts(qkv, *past)


def self_attention_forward(qkv, n_head, *, mask=None, rate=0.0, key=None, past=None, grad=True):
    """qkv (B,T,3C) -> out (B,T,C)

    A tile of queries meets all keys up to its own last one, so that an ordinary softmax will do. Kept are q / sqrt(D),
    k and v of each head, out, and lse, the logarithm of each row's sum of exponentials: from these the backward pass
    computes the probabilities of a tile again.
    """
    if past is not None:
        return _go_on(qkv, n_head, mask, *past), None
    b, t, c = qkv.shape[0], qkv.shape[1], qkv.shape[2] // 3
    q, k, v = heads = _split(qkv, n_head)
    q *= 1 / math.sqrt(c // n_head)
    key = key if rate else None
    out, lse = np.empty_like(q), np.empty((*q.shape[:2], 1), q.dtype)

    def group(g):
        for rows, seen in _tiles(t):
            e = _scores(q[g, rows], k[g, seen])
            with np.errstate(over="ignore", divide="ignore"):
                z = _exp(e)
                log_z = np.log(z, out=lse[g, rows])
            if not np.abs(log_z).max() < SAFE:
                e = _scores(q[g, rows], k[g, seen])
                shift = e.max(axis=-1, keepdims=True)
                e -= shift
                z = _exp(e)
                np.add(np.log(z), shift, out=log_z)
            if key is not None:
                e *= _keep(key, rate, b, q.shape, g, rows, seen)
                z *= 1 - rate
            o = np.matmul(e, v[g, seen], out=out[g, rows])
            o /= z

    share_over(group, len(q), min(t, TILE) * t)
    out = out.reshape(b, n_head, t, -1).swapaxes(1, 2).reshape(b, t, c)
    return out, SelfAttentionCache(heads, out, lse, rate, key) if grad else None


def _go_on(qkv, n_head, mask, k_past, v_past):
    """qkv (B,T,3C), mask (*,T,S+T) or None, k_past and v_past (B,NH,S,D) -> out (B,T,C)

    The past is read where it lies: the new keys and values are met beside it, and not put behind a copy of it.
    """
    b, t, c = qkv.shape[0], qkv.shape[1], qkv.shape[2] // 3
    q, k, v = qkv.reshape(b, t, 3, n_head, -1).transpose(2, 0, 3, 1, 4)
    q, n = q * qkv.dtype.type(1 / math.sqrt(c // n_head)), k_past.shape[2]
    out = np.empty_like(q, order="C")
    if mask is None and t > 1:
        mask = np.tri(t, n + t, n, dtype=bool)
    if mask is not None:
        mask = np.broadcast_to(mask, (b, n_head, t, n + t))

    def heads(h):
        s = np.empty((b, h.stop - h.start, t, n + t), q.dtype)
        np.matmul(q[:, h], k_past[:, h].swapaxes(-1, -2), out=s[..., :n])
        np.matmul(q[:, h], k[:, h].swapaxes(-1, -2), out=s[..., n:])
        if mask is not None:
            s[~mask[:, h]] = -math.inf
        largest = s.max(axis=-1, keepdims=True)
        s -= np.maximum(largest, np.finfo(s.dtype).min, out=largest)  # -inf: a query that may see nothing
        z = _exp(s)
        o = np.matmul(s[..., :n], v_past[:, h], out=out[:, h])
        o += s[..., n:] @ v[:, h]
        o /= np.maximum(z, np.finfo(s.dtype).tiny, out=z)

    share(heads, n_head, work=k_past.size // 2)
    return out.swapaxes(1, 2).reshape(b, t, c)


def self_attention_backward(dout, cache: SelfAttentionCache):
    """dout (B,T,C) -> dqkv (B,T,3C)

    With p = e / z the division goes to dout, which is smaller: p (dp - delta) = e (dp / z - delta / z), where delta,
    the mean of dp under p, is the product of dout and out.
    """
    (q, k, v), out, lse, rate, key = cache
    b, t, c = dout.shape
    n_head, size = len(q) // b, q.shape[-1]
    delta = np.vecdot(dout.reshape(b, t, n_head, size), out.reshape(b, t, n_head, size))
    delta = delta.swapaxes(1, 2).reshape(lse.shape)
    (do,) = _split(dout, n_head, parts=1)
    dq, dk, dv = dheads = np.empty((3, *q.shape), q.dtype)

    def group(g):
        for rows, seen in reversed(_tiles(t)):  # the last tile sees every key: it sets dk and dv, the others add
            e, d = _scores(q[g, rows], k[g, seen]), do[g, rows]
            if np.abs(lse[g, rows]).max() < SAFE:
                z_inverse = np.exp(-lse[g, rows])
            else:
                e -= lse[g, rows]
                z_inverse = 1
            np.exp(e, out=e)
            d = d * z_inverse
            de = d @ v[g, seen].swapaxes(-1, -2)
            a = e
            if key is not None:
                kept = _keep(key, rate, b, q.shape, g, rows, seen) * q.dtype.type(1 / (1 - rate))
                de *= kept
                a = np.multiply(e, kept, out=kept)
            _add(dv[g], seen, a, d, t)
            de -= delta[g, rows] * z_inverse
            de *= e
            np.matmul(de, k[g, seen], out=dq[g, rows])
            _add(dk[g], seen, de, q[g, rows], t)

    share_over(group, len(q), min(t, TILE) * t)
    dq *= 1 / math.sqrt(size)
    return dheads.reshape(3, b, n_head, t, size).transpose(1, 3, 0, 2, 4).reshape(b, t, 3 * c)


def _split(x, n_head, parts=3):
    """x (B,T,parts C) -> (parts, B NH, T, D), a copy: the columns of each head become a matrix of their own."""
    b, t, c = x.shape
    heads = x.reshape(b, t, parts, n_head, -1).transpose(2, 0, 3, 1, 4)
    return heads.copy().reshape(parts, b * n_head, t, c // parts // n_head)


def _tiles(t):
    """The queries of each tile, and the keys that any of them sees."""
    return [(slice(i, min(i + TILE, t)), slice(0, min(i + TILE, t))) for i in range(0, t, TILE)]


def _scores(q, k):
    """q (G,R,D), the last R queries, k (G,S,D) -> s (G,R,S), -inf where a key comes after the query"""
    s = q @ k.swapaxes(-1, -2)
    last = s[..., -q.shape[1] :]
    last += _future(q.shape[1], s.dtype)
    return s


@functools.cache
def _future(r, dtype):
    """(R,R): -inf for a key that comes after the query, and 0"""
    return np.triu(np.full((r, r), -math.inf, dtype), 1)


def _exp(s):
    """s (G,R,S), exponentiated in place -> (G,R,1), the sum of each row"""
    np.exp(s, out=s)
    return s @ np.ones((s.shape[-1], 1), s.dtype)


def _keep(key, rate, batch, shape, g, rows, seen):
    """(G,R,S) boolean: a tile of what keep_mask says of all probabilities (B,NH,T,T)."""
    n, t, _ = shape
    first = key.row * (n // batch) * t * t
    row = (first + np.arange(g.start, g.stop)[:, None] * t * t + np.arange(rows.start, rows.stop) * t) & 0xFFFFFFFF
    return keep_at(key, rate, row.astype(np.uint32)[..., None] + np.arange(seen.stop, dtype=np.uint32))


def _add(total, seen, a, b, t):
    """a (G,R,S), b (G,R,D): total (G,T,D), of the keys seen, gets a^T b."""
    if seen.stop == t:
        np.matmul(a.swapaxes(-1, -2), b, out=total)
    else:
        part = total[:, seen]
        part += a.swapaxes(-1, -2) @ b

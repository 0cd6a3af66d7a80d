"""Exercise 18: find the bug (lesson 18).

Attention in tiles that takes any mask. The author checked it with KEYS = 64 and short texts: every gradient was happy.
Then KEYS became 2. The output is still right. Some gradients are not. One line is wrong: which gradients does it
touch, and why did the first check see nothing? Change the line, and let the library's own tests judge you:

    minigpt check lessons/exercises/18_find_the_bug.py
"""

import math

import numpy as np

from minigpt import ops

KEYS = 2  # of a tile
LOWEST = -1e30  # where the search for the largest score begins


def tile_scores(q, k, visible):
    """q (*,T,D), k (*,S,D), visible (*,T,S) -> scaled scores of a tile (*,T,S), -inf where a key may not be seen"""
    return np.where(visible, q @ k.swapaxes(-1, -2) * (1 / math.sqrt(q.shape[-1])), -math.inf)


def attention_forward(q, k, v, *, mask=None, rate=0.0, key=None):
    """q (*,T,D), k (*,S,D), v (*,S,D) -> out (*,T,D)"""
    if key is not None:
        return NotImplemented  # dropout on the shares: the library does that
    if mask is None:
        mask = ops.causal_mask(q.shape[-2], k.shape[-2], np)
    mask = np.broadcast_to(mask, (*q.shape[:-1], k.shape[-2]))
    m = np.full((*q.shape[:-1], 1), LOWEST, q.dtype)
    z, o = np.zeros_like(m), np.zeros_like(q)
    for first in range(0, k.shape[-2], KEYS):
        tile = np.s_[..., first : first + KEYS, :]
        s = tile_scores(q, k[tile], mask[..., first : first + KEYS])
        larger = np.maximum(m, s.max(axis=-1, keepdims=True))
        rescale = np.exp(m - larger)
        e = np.exp(s - larger)
        z = z * rescale + e.sum(axis=-1, keepdims=True)
        o = o * rescale + e @ v[tile]
        m = larger
    z = np.where(z == 0, 1, z)  # a query that may see nothing
    out, lse = o / z, m + np.log(z)
    return out, (q, k, v, mask, out, lse)


def attention_backward(dout, cache):
    """dout (*,T,D) -> dq (*,T,D), dk (*,S,D), dv (*,S,D)"""
    q, k, v, mask, out, lse = cache
    dq, dk, dv = np.zeros_like(q), np.zeros_like(k), np.zeros_like(v)
    for first in range(0, k.shape[-2], KEYS):
        tile = np.s_[..., first : first + KEYS, :]
        s = tile_scores(q, k[tile], mask[..., first : first + KEYS])
        p = np.exp(s - lse)
        # out = p @ v
        dp = dout @ v[tile].swapaxes(-1, -2)
        dv[tile] = p.swapaxes(-1, -2) @ dout
        # p = softmax(s)
        mean_dp = (p * dp).sum(axis=-1, keepdims=True)
        ds = p * (dp - mean_dp) * (1 / math.sqrt(q.shape[-1]))
        # s = q @ k^T / sqrt(D)
        dq += ds @ k[tile]
        dk[tile] = ds.swapaxes(-1, -2) @ q
    return dq, dk, dv


# --- the judge: nothing below is yours --------------------------------------------------------------------------------


if __name__ == "__main__":
    from minigpt.learn.judging.check_file import main

    raise SystemExit(main(__file__))

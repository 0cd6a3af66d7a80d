"""Exercise 20: attention in tiles (lesson 20, section 5).

Keys and values come two at a time, and no array of size T x S is ever made of shares. The loop stands; what happens in
a tile is yours. Replace what is marked "your turn", then let the library's own tests judge you:

    minigpt check lessons/exercises/20_the_gpu.py

Any mask may come, and there may be queries that see nothing in a tile, or nothing at all. That is why m begins at a
number, and not at minus infinity: what would exp(m - larger) be, if both were?
"""

import math

import numpy as np

from minigpt import ops

KEYS = 2  # of a tile: small, so that a small check crosses every edge
LOWEST = -1e30  # where the search for the largest score begins


def scores(q, k, visible):
    """q (*,T,D), k (*,S,D), visible (*,T,S) -> scaled scores of a tile (*,T,S), -inf where nothing is to be seen"""
    return np.where(visible, q @ k.swapaxes(-1, -2) * (1 / math.sqrt(q.shape[-1])), -math.inf)


def attention_forward(q, k, v, *, mask=None, rate=0.0, key=None):
    """q (*,T,D), k (*,S,D), v (*,S,D) -> out (*,T,D)

    out = softmax(q k^T / sqrt(D)) v, where a query sees only what the mask allows; one that sees nothing gets 0.
    """
    if key is not None:
        return NotImplemented  # dropout on the shares: the library does that
    if mask is None:
        mask = ops.causal_mask(q.shape[-2], k.shape[-2], np)
    m = np.full((*q.shape[:-1], 1), LOWEST, q.dtype)  # the largest score so far
    z, o = np.zeros_like(m), np.zeros_like(q)  # the sum of exp(s - m), and of exp(s - m) v
    for first in range(0, k.shape[-2], KEYS):
        tile = np.s_[..., first : first + KEYS, :]
        s = scores(q, k[tile], mask[..., first : first + KEYS])
        larger = np.maximum(m, s.max(axis=-1, keepdims=True))
        ...  # your turn: exp(s - larger), and what m, z and o become
    out = ...  # your turn; where z is 0, divide by 1
    lse = ...  # your turn: one number for each row, from which exp(s - lse) will be its shares
    return out, (q, k, v, mask, out, lse)


def attention_backward(dout, cache):
    """dout (*,T,D) -> dq (*,T,D), dk (*,S,D), dv (*,S,D)"""
    q, k, v, mask, out, lse = cache
    dq, dk, dv = np.zeros_like(q), np.zeros_like(k), np.zeros_like(v)
    average = ...  # your turn: of dp along a row of p, without p
    for first in range(0, k.shape[-2], KEYS):
        tile = np.s_[..., first : first + KEYS, :]
        s = scores(q, k[tile], mask[..., first : first + KEYS])
        p = ...  # your turn: the shares of this tile, once more
        # out = p @ v
        ...  # your turn: dp, and the part of dv that belongs to this tile
        # p = softmax(s)
        ...  # your turn: ds
        # s = q @ k^T / sqrt(D)
        ...  # your turn: what dq gets from this tile, and dk
    return dq, dk, dv


if __name__ == "__main__":
    from minigpt.learn.check_file import main

    raise SystemExit(main(__file__))

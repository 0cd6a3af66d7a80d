"""Rotary positions: kernel in rope.cu."""

import math
from typing import NamedTuple

from minigpt.device.arrays import Array, array_module
from minigpt.ops.cuda import kernels
from minigpt.ops.cuda.kernels import blocks, launch, pack_of, wide


class RopeCache(NamedTuple):
    cos: Array
    sin: Array
    pairing: str
    heads: int | None


def rope_forward(x, *, cos, sin, pairing="halves", heads=None):
    """x (B,T,H,D) -> out (B,T,H,D)"""
    xp = array_module(x)
    dtype = wide(x.dtype)  # angles of bfloat16 would have two digits
    cos = xp.ascontiguousarray(cos, dtype)
    sin = xp.ascontiguousarray(sin, dtype)
    cache = RopeCache(cos, sin, pairing, heads)
    return _turned(x, cache, 1.0), cache


def rope_backward(dout, cache: RopeCache):
    """dout (B,T,H,D) -> dx (B,T,H,D)"""
    return _turned(dout, cache, -1.0)


def _turned(x, cache, sign):
    """x (B,T,H,D) -> (B,T,H,D). sign: 1.0, or -1.0 for the turn back."""
    cos, sin, pairing, heads = cache
    xp = array_module(x)
    x = xp.ascontiguousarray(x)
    b, t, n_all, d = x.shape
    turning = n_all if heads is None else heads
    pairs = cos.shape[-1]
    out = xp.empty_like(x)
    pack = pack_of(math.gcd(pairs, d), x, out)
    positions = cos.size // pairs
    grid = b * t, blocks(n_all * d, pack * kernels.THREADS), 1
    block = kernels.THREADS, 1, 1
    launch(
        "rope", "rope", grid, block,
        out, x, cos, sin, positions, n_all, turning, sign,
        PACK=pack, HEAD=d, PAIRS=pairs, NEIGHBOURS=int(pairing == "neighbours"),
    )  # fmt: skip
    return out

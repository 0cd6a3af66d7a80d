"""Rotary positions: kernel in rope.cu."""

from typing import NamedTuple

from minigpt.device.arrays import Array, array_module
from minigpt.ops.cuda import kernels
from minigpt.ops.cuda.kernels import THREADS, accepts, blocks, launch, wide


class RopeCache(NamedTuple):
    cos: Array
    sin: Array
    pairing: str
    heads: int | None


def rope_supports(x, *, cos, sin, pairing="halves", heads=None) -> str | None:
    """Cosines and sines are computed with in float32 beside an x of bfloat16."""
    for angles in (cos, sin):
        if not isinstance(angles, kernels.ARRAY):
            return f"it takes cos and sin in CuPy arrays, not in a {type(angles).__name__}"
    return accepts(x)


def rope_forward(x, *, cos, sin, pairing="halves", heads=None):
    """x (B,T,H,D) -> out (B,T,H,D)"""
    return _turned(x, cos, sin, pairing, heads, 1.0), RopeCache(cos, sin, pairing, heads)


def rope_backward(dout, cache: RopeCache):
    """dout (B,T,H,D) -> dx (B,T,H,D): the same kernel turns back"""
    return _turned(dout, *cache, -1.0)


def _turned(x, cos, sin, pairing, heads, way):
    xp = array_module(x)
    x = xp.ascontiguousarray(x)
    cos = xp.ascontiguousarray(cos, dtype=wide(x.dtype))
    sin = xp.ascontiguousarray(sin, dtype=wide(x.dtype))
    _, _, all_heads, size = x.shape
    r = cos.shape[-1]
    out = xp.empty_like(x)
    sizes = x.size, all_heads, size
    turns = cos, sin, cos.size // max(1, r), r
    which = all_heads if heads is None else heads, int(pairing == "neighbours"), way
    grid = blocks(x.size, THREADS), 1, 1
    launch("rope", "rope", grid, (THREADS, 1, 1), out, x, *sizes, *turns, *which, PACK=1)
    return out

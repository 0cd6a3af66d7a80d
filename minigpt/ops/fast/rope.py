"""Rotary positions, in one copy."""

from typing import NamedTuple

import numpy as np

from minigpt.device.arrays import Array
from minigpt.ops.fast.pieces import accepts


class RopeCache(NamedTuple):
    cos: Array
    sin: Array
    pairing: str
    heads: int | None


def rope_supports(x, *, cos, sin, pairing="halves", heads=None) -> str | None:
    """Angles of the dtype of x."""
    return accepts(x, cos, sin)


def rope_forward(x, *, cos, sin, pairing="halves", heads=None):
    """x (B,T,H,D) -> out (B,T,H,D)"""
    return _turned(x, cos, sin, pairing, heads), RopeCache(cos, sin, pairing, heads)


def rope_backward(dout, cache: RopeCache):
    """dout (B,T,H,D) -> dx (B,T,H,D)"""
    cos, sin, pairing, heads = cache
    return _turned(dout, cos, -sin, pairing, heads)


def _turned(x, cos, sin, pairing, heads):
    r = cos.shape[-1]
    cos = cos[..., None, :]
    sin = sin[..., None, :]
    step, apart = (1, r) if pairing == "halves" else (2, 1)
    first = slice(0, step * r, step)
    second = slice(apart, apart + step * r, step)
    a = x[:, :, :heads, first]
    b = x[:, :, :heads, second]
    out = x.copy()
    y = np.multiply(a, cos, out=out[:, :, :heads, first])
    y -= b * sin
    z = np.multiply(b, cos, out=out[:, :, :heads, second])
    z += a * sin
    return out

"""Rotary positions: a pair of columns is a complex number, and a turn is one product with another one."""

from typing import NamedTuple

import numpy as np

from minigpt.device.arrays import Array
from minigpt.ops.fast.pieces import share_over

COMPLEX = {np.dtype(np.float32): np.dtype(np.complex64), np.dtype(np.float64): np.dtype(np.complex128)}


class RopeCache(NamedTuple):
    cos: Array
    sin: Array
    pairing: str
    heads: int | None


def rope_forward(x, *, cos, sin, pairing="halves", heads=None):
    """x (B,T,H,D) -> out (B,T,H,D)"""
    turns = _turns(cos, sin, x.dtype)
    return _turned(x, turns, pairing, heads), RopeCache(cos, sin, pairing, heads)


def rope_backward(dout, cache: RopeCache):
    """dout (B,T,H,D) -> dx (B,T,H,D)"""
    cos, sin, pairing, heads = cache
    turns_back = _turns(cos, -sin, dout.dtype)
    return _turned(dout, turns_back, pairing, heads)


def _turns(cos, sin, dtype):
    """(T,R) or (B,T,R) -> the complex number cos + i sin of each angle, with an axis for heads: (...,T,1,R)"""
    turns = np.empty(cos.shape, COMPLEX[dtype])
    turns.real = cos
    turns.imag = sin
    return turns[..., None, :]


def _turned(x, turns, pairing, heads):
    """x (B,T,H,D) -> (B,T,H,D): a copy whose first heads are turned.

    (a + ib) (cos + i sin) = (a cos - b sin) + i (a sin + b cos). Neighbours a, b are a complex number where they lie.
    """
    x = np.ascontiguousarray(x)
    b, t, n_all, d = x.shape
    n = n_all if heads is None else heads
    r = turns.shape[-1]
    out = np.empty_like(x)

    def part(places):
        given = x[:, places, :n]
        new = out[:, places, :n]
        angles = turns[..., places, :, :]
        if pairing == "neighbours":
            pairs = given[..., : 2 * r].view(turns.dtype)
            np.multiply(pairs, angles, out=new[..., : 2 * r].view(turns.dtype))
        else:
            pairs = np.empty((*given.shape[:-1], r), turns.dtype)
            pairs.real = given[..., :r]
            pairs.imag = given[..., r : 2 * r]
            pairs *= angles
            new[..., :r] = pairs.real
            new[..., r : 2 * r] = pairs.imag
        if 2 * r < d:
            new[..., 2 * r :] = given[..., 2 * r :]
        if n < n_all:
            out[:, places, n:] = x[:, places, n:]

    share_over(part, t, b * n_all * d)
    return out

"""Rotary positions (Su et al. 2021, section 3.2.2): a query and a key are turned by the angle of their place."""

from typing import NamedTuple

from minigpt.device.arrays import Array, array_module


class RopeCache(NamedTuple):
    cos: Array
    sin: Array
    pairing: str
    heads: int | None


def rope_forward(x, *, cos, sin, pairing="halves", heads=None):
    """x (B,T,H,D) -> out (B,T,H,D)

    A pair (a, b) of numbers at position t becomes (a cos - b sin, a sin + b cos), as an arrow that turns by the angle
    of pair i at t. A query at m and a key at n turn by angles that grow with m and n, so their product depends on n - m
    alone.

    cos, sin: (T,R) or (B,T,R), of the angles; 2R <= D: the first 2R columns of a head are turned, the others are not.
    pairing: "halves", pair i is columns i and i + R, as in files of Hugging Face; "neighbours", 2i and 2i + 1, as in
    the paper. heads: so many of the heads are turned, the first ones: queries and keys, but no values; None: all.
    """
    out = _turned(x, cos, sin, pairing, heads)
    cache = RopeCache(cos, sin, pairing, heads)
    return out, cache


def rope_backward(dout, cache: RopeCache):
    """dout (B,T,H,D) -> dx (B,T,H,D)

    A turn has no other derivative than itself, and its transpose is the turn back: the sine changes its sign.
    """
    cos, sin, pairing, heads = cache
    return _turned(dout, cos, -sin, pairing, heads)


def _turned(x, cos, sin, pairing, heads):
    """x (B,T,H,D) -> (B,T,H,D): a copy whose first heads are turned."""
    xp = array_module(x)
    r = cos.shape[-1]
    cos = cos[..., None, :]  # the same for all heads
    sin = sin[..., None, :]
    first, second = columns_of_pairs(pairing, r)
    a = x[:, :, :heads, first]
    b = x[:, :, :heads, second]
    turned_a = a * cos - b * sin
    turned_b = a * sin + b * cos
    out = xp.array(x)
    out[:, :, :heads, first] = turned_a
    out[:, :, :heads, second] = turned_b
    return out


def columns_of_pairs(pairing: str, r: int) -> tuple[slice, slice]:
    """The columns of the first numbers of r pairs, and those of the second ones."""
    if pairing == "halves":
        return slice(0, r), slice(r, 2 * r)
    return slice(0, 2 * r, 2), slice(1, 2 * r, 2)

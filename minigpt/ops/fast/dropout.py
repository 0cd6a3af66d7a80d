"""Dropout."""

from typing import NamedTuple

import numpy as np

from minigpt.ops.fast.pieces import accepts, share_over
from minigpt.ops.random_keys import Key, keep_part


class DropoutCache(NamedTuple):
    rate: float
    key: Key | None


def dropout_supports(x, *, rate, key) -> str | None:
    """Rates out of range are left to the reference, which raises the error."""
    if not 0 <= rate < 1:
        return "it takes rates from 0 up to, but not including, 1"
    return accepts(x)


def dropout_forward(x, *, rate, key):
    """x (*) -> out (*)"""
    return _drop(x, rate, key), DropoutCache(rate, key)


def dropout_backward(dout, cache: DropoutCache):
    """dout (*) -> dx (*)"""
    return _drop(dout, cache.rate, cache.key)


def _drop(x, rate, key):
    if key is None or rate == 0:
        return x
    flat = x.reshape(-1)
    out = np.empty_like(flat)

    def piece(i):
        keep = keep_part(key, rate, x.shape, i, np)
        y = np.multiply(flat[i], keep, out=out[i])
        y *= 1 / (1 - rate)

    share_over(piece, x.size, 1)
    return out.reshape(x.shape)

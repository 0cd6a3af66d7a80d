"""Dropout: kernel in dropout.cu."""

import math
from typing import NamedTuple

from minigpt.device.arrays import array_module
from minigpt.ops.cuda.kernels import accepts, launch_each
from minigpt.ops.keys import WORD, Key


class DropoutCache(NamedTuple):
    rate: float
    key: Key | None


def dropout_supports(x, *, rate, key) -> str | None:
    """Rates out of range are left to the reference, which raises the error."""
    return accepts(x) if 0 <= rate < 1 else "it takes rates from 0 up to 1"


def dropout_forward(x, *, rate, key):
    """x (*) -> out (*)"""
    return _drop(x, rate, key), DropoutCache(rate, key)


def dropout_backward(dout, cache: DropoutCache):
    """dout (*) -> dx (*)"""
    return _drop(dout, cache.rate, cache.key)


def chance(rate, key, shape) -> tuple:
    """first, table, key, threshold, stretch, as kernels take them: for an array of this shape, a part of a batch."""
    if key is None or rate == 0:
        return 0, None, 0, 0, 1.0
    where = (None, key.word) if isinstance(key.word, int) else (key.word, 0)
    return key.row * math.prod(shape[1:]) & WORD, *where, min(int(rate * 2**32), WORD), 1 / (1 - rate)


def _drop(x, rate, key):
    if key is None or rate == 0:
        return x
    xp = array_module(x)
    x = xp.ascontiguousarray(x)
    return launch_each("dropout", "dropout", xp.empty_like(x), x, x.size, *chance(rate, key, x.shape))

"""Dropout: kernel in dropout.cu."""

from typing import NamedTuple

from minigpt.device.arrays import array_module
from minigpt.ops.cuda.kernels import accepts, launch_each
from minigpt.ops.random_keys import LOW_32_BITS, Key, drop_below, first_index


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


def chance(rate, key, shape) -> tuple:
    """first, table, key, threshold, stretch: what kernels take, for an array of this shape, a part of a batch.

    first: the number of its first element in the whole batch. table: where the kernel reads the key's bits, or None,
    and then key has them. threshold: hashes below it drop. stretch: what the kept elements are multiplied by.
    """
    if key is None or rate == 0:
        return 0, None, 0, 0, 1.0
    first = first_index(key, shape) & LOW_32_BITS
    table = None
    bits = key.seed_bits
    if not isinstance(bits, int):
        table = bits
        bits = 0
    return first, table, bits, drop_below(rate), 1 / (1 - rate)


def _drop(x, rate, key):
    if key is None or rate == 0:
        return x
    xp = array_module(x)
    x = xp.ascontiguousarray(x)
    out = xp.empty_like(x)
    return launch_each("dropout", "dropout", out, x, x.size, *chance(rate, key, x.shape))

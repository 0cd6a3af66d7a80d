"""Dropout (Srivastava et al. 2014), with chance as an argument."""

from typing import NamedTuple

from minigpt.device.arrays import array_module
from minigpt.errors import InputError
from minigpt.ops.random_keys import Key, keep_mask


class DropoutCache(NamedTuple):
    rate: float
    key: Key | None


def dropout_forward(x, *, rate, key):
    """x (*) -> out (*)

    out = x keep / (1 - rate), where keep is 1 with probability 1 - rate, and the division keeps the mean. Which
    elements are kept is a hash of the key and of the element's place, so no mask is stored. key=None is evaluation:
    nothing is dropped. Raises InputError for a rate outside [0, 1).
    """
    if not 0 <= rate < 1:
        raise InputError(f"dropout rate {rate}: give a number from 0 up to, but not including, 1")
    return _drop(x, rate, key), DropoutCache(rate, key)


def dropout_backward(dout, cache: DropoutCache):
    """dout (*) -> dx (*)

    The output does not depend on a dropped element: its gradient is 0. A kept one was multiplied by 1 / (1 - rate): so
    is its gradient.
    """
    # out = x * keep / (1 - rate): the key gives the same keep again
    return _drop(dout, cache.rate, cache.key)


def _drop(x, rate, key):
    if key is None or rate == 0:
        return x
    keep = keep_mask(key, rate, x.shape, array_module(x))
    return x * keep * (1 / (1 - rate))

"""Chance as an argument: a key names a place in the computation, and a hash turns it into a dropout mask.

Nothing is drawn from a hidden random stream, so nothing has to be stored: the backward pass, a resumed run and another
machine all compute the same bits again.
"""

import math
import operator
from typing import Any, NamedTuple

import numpy as np

from minigpt.errors import InputError, is_whole, shown

LOW_32_BITS = 0xFFFFFFFF  # x & LOW_32_BITS is x modulo 2**32: NumPy, CuPy and CUDA all have numbers of 32 bits


def _mix(x):
    """x below 2**32, a number or an array, mixed so that every input bit can change every output bit."""
    x = x ^ x >> 16
    x = x * 0x7FEB352D & LOW_32_BITS
    x = x ^ x >> 15
    x = x * 0x846CA68B & LOW_32_BITS
    return x ^ x >> 16


def _folded(bits, number):
    """The bits of place `number` inside the place that has these bits: integers, or arrays of uint64."""
    low = _mix(number & LOW_32_BITS)
    high = number >> 32
    mixed = bits * 0x01000193 ^ low ^ high
    return _mix(mixed & LOW_32_BITS)


class Key(NamedTuple):
    """Names one draw of random bits.

    bits: 32 bits, made by `Key.of(seed, step)` and `fold`; or a table of such bits, made by `table`.
    row:  which row of the whole batch is the first one here. A process, or a part of a batch, that holds rows 8 to 15
          passes row=8 and gets the masks that these rows have in the whole batch.
    """

    bits: Any
    row: int = 0

    @classmethod
    def of(cls, *numbers: int) -> "Key":
        """The key of a (seed, step): `Key.of(seed, step)`."""
        return cls(0x9E3779B9).fold(*numbers)

    def fold(self, *numbers: int) -> "Key":
        """The key of a place inside this one: `key.fold(layer, site)`.

        Raises TypeError for what is no whole number, and IndexError for a number that a table does not have.
        """
        bits = self.bits
        for number in numbers:
            if not hasattr(number, "__index__"):
                raise TypeError(f"a key is folded with {shown(number)}: give whole numbers")
            number = operator.index(number)  # NumPy's integers too
            if is_whole(bits):
                bits = _folded(int(bits), number)
            else:
                bits = bits[number + 1, ...]
        return self._replace(bits=bits)

    def table(self, *sizes: int) -> np.ndarray:
        """The bits of all keys that `fold` gives for numbers below these sizes: uint32 (sizes[0]+1,sizes[1]+1,...)

        `Key(table)` folds by looking up: along each axis, entry 0 is the place itself, and entry number + 1 the place
        inside it. So a step that is recorded once and repeated, all its numbers fixed, can use another key each time:
        its table is overwritten by another one.
        """
        bits = np.array(self.bits, np.uint64)
        for size in sizes:
            numbers = np.arange(size, dtype=np.uint64)
            itself = bits[..., None]
            inside = _folded(itself, numbers)
            bits = np.concatenate([itself, inside], axis=-1)
        return bits.astype(np.uint32)

    @property
    def seed_bits(self) -> Any:
        """The 32 bits that the hash starts from: a number, or, of a key in a table, an array (1,)."""
        if is_whole(self.bits):
            return int(self.bits) & LOW_32_BITS
        return self.bits.reshape(-1)[:1]


def is_key(value: Any) -> bool:
    """Is it a Key whose bits are a whole number or an array of 32-bit ones, and whose row is a whole number?"""
    if not isinstance(value, Key):
        return False
    bits = value.bits
    is_table = getattr(bits, "dtype", None) == np.uint32 and getattr(bits, "size", 0) > 0
    return is_whole(value.row) and (is_whole(bits) or is_table)


def fold(key: "Key | None", *numbers: int) -> "Key | None":
    """`key.fold(...)`, where None (evaluation: no chance at all) stays None. Raises InputError for another value."""
    if key is None:
        return None
    if not isinstance(key, Key):
        raise InputError(f"key is {shown(key)}: give a Key, such as Key.of(seed, step), or None for no dropout")
    return key.fold(*numbers)


def drop_below(rate: float) -> int:
    """The 32-bit number below which a hash drops its element: rate 2^32, and at most 2^32 - 1."""
    return min(int(rate * 2**32), LOW_32_BITS)


def first_index(key: Key, shape: tuple[int, ...]) -> int:
    """The number, in the whole batch, of the first element of an array of this shape; not yet modulo 2^32."""
    return operator.index(key.row) * math.prod(shape[1:])


def keep_mask(key: Key, rate: float, shape: tuple[int, ...], xp):
    """A boolean array of `shape`, each element True (kept) with probability 1 - rate.

    keep[i] = hash(key, i) >= rate * 2**32, where i counts the elements of the whole batch in row-major order
    (modulo 2**32). The same on NumPy and CuPy (`xp`), for any dtype, and for any split of the batch along axis 0.
    """
    size = math.prod(shape)
    keep = xp.empty(size, bool)
    step = max(1, size)
    if xp.__name__ == "numpy":
        step = 1 << 15  # a piece of this size stays in a processor's cache
    for start in range(0, size, step):
        stop = min(start + step, size)
        part = slice(start, stop)
        keep[part] = keep_part(key, rate, shape, part, xp)
    return keep.reshape(shape)


def keep_part(key: Key, rate: float, shape: tuple[int, ...], part: slice, xp):
    """Some elements of the mask as if it were flat, a boolean array: keep_mask(...).reshape(-1)[part]."""
    first = first_index(key, shape) + part.start
    index = xp.arange(part.stop - part.start, dtype=xp.uint32)
    index += first & LOW_32_BITS
    return keep_at(key, rate, index)


def keep_at(key: Key, rate: float, index):
    """index (*) uint32, numbers of elements in the whole batch -> keep (*) bool. The array index is overwritten."""
    return _hashed(key, index) >= drop_below(rate)


def uniform(key: Key, shape: tuple[int, ...], xp):
    """An array of `shape`, float64, of numbers from 0 up to, but not including, 1; otherwise as `keep_mask`."""
    index = xp.arange(math.prod(shape), dtype=xp.uint32)
    index += first_index(key, shape) & LOW_32_BITS
    return (_hashed(key, index) / 2.0**32).reshape(shape)


def _hashed(key: Key, index):
    """index (*) uint32 -> the 32 bits of each element, uint32. The array index is overwritten."""
    x = index
    # Mixed as by _mix, with the key put in twice, so that two keys never give shifted copies of one mask.
    x ^= key.seed_bits
    x ^= x >> 16
    x *= 0x7FEB352D
    x ^= x >> 15
    x += key.seed_bits
    x *= 0x846CA68B
    x ^= x >> 16
    return x

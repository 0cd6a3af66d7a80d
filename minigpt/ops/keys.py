"""Chance as an argument: a key names a place in the computation, and a hash turns it into a dropout mask.

Nothing is drawn from a hidden stream, so nothing has to be stored: the backward pass, a resumed run and another
machine all compute the same bits again.
"""

import math
import operator
from typing import Any, NamedTuple

import numpy as np

WORD = 0xFFFFFFFF  # everything is done in 32 bits, which NumPy, CuPy and CUDA all have


def _mix(x):
    """A 32-bit word, or each of an array, stirred so that every input bit can reach every output bit."""
    x = x ^ x >> 16
    x = x * 0x7FEB352D & WORD
    x = x ^ x >> 15
    x = x * 0x846CA68B & WORD
    return x ^ x >> 16


def _folded(bits, number):
    """The bits of a place inside another one, by the number of that place; words, or arrays of uint64."""
    return _mix((bits * 0x01000193 ^ _mix(number & WORD) ^ number >> 32) & WORD)


class Key(NamedTuple):
    """Names one draw of random bits.

    bits: 32 bits, made by `Key.of(seed, step)` and `fold`; or a table of such bits, made by `table`.
    row:  which row of the whole batch is the first one here. A rank or a micro-batch that holds rows 8 to 15 passes
          row=8 and gets the masks that these rows have in the whole batch.
    """

    bits: Any
    row: int = 0

    @classmethod
    def of(cls, *numbers: int) -> "Key":
        """The key of a (seed, step): `Key.of(seed, step)`."""
        return cls(0x9E3779B9).fold(*numbers)

    def fold(self, *numbers: int) -> "Key":
        """The key of a place inside this one: `key.fold(layer, site)`."""
        bits = self.bits
        for number in map(operator.index, numbers):  # NumPy's integers too
            bits = _folded(bits, number) if isinstance(bits, int) else bits[number + 1, ...]
        return self._replace(bits=bits)

    def table(self, *sizes: int) -> np.ndarray:
        """The bits of all keys that `fold` gives for numbers below these sizes: uint32 (sizes[0]+1,sizes[1]+1,...)

        `Key(table)` folds by looking up: along each axis 0 is the place itself, and number + 1 the place inside it. So
        a step that is only repeated, with all its numbers fixed, can have another key every time: a table in its place.
        """
        bits = np.array(self.bits, np.uint64)
        for size in sizes:
            inside = _folded(bits[..., None], np.arange(size, dtype=np.uint64))
            bits = np.concatenate([bits[..., None], inside], axis=-1)
        return bits.astype(np.uint32)

    @property
    def word(self) -> Any:
        """The 32 bits: a number, or what stands for it in a table: an array (1,)."""
        return self.bits if isinstance(self.bits, int) else self.bits.reshape(-1)[:1]


def fold(key: "Key | None", *numbers: int) -> "Key | None":
    """`key.fold(...)`, where None (evaluation: no chance at all) stays None."""
    return None if key is None else key.fold(*numbers)


def keep_mask(key: Key, rate: float, shape: tuple[int, ...], xp):
    """A boolean array of `shape`, each element True (kept) with probability 1 - rate.

    keep[i] = hash(key, i) >= rate * 2**32, where i counts the elements of the whole batch in row-major order
    (modulo 2**32). The same on NumPy and CuPy (`xp`), for any dtype, and for any split of the batch along axis 0.
    """
    size = math.prod(shape)
    keep = xp.empty(size, bool)
    step = 1 << 15 if xp.__name__ == "numpy" else size  # a piece of this size stays in a processor's cache
    for i in range(0, size, step):
        part = slice(i, min(i + step, size))
        keep[part] = keep_part(key, rate, shape, part, xp)
    return keep.reshape(shape)


def keep_part(key: Key, rate: float, shape: tuple[int, ...], part: slice, xp):
    """The same for some of the elements only, as if the mask were flat: keep_mask(...).reshape(-1)[part]."""
    index = xp.arange(part.stop - part.start, dtype=xp.uint32)
    index += operator.index(key.row) * math.prod(shape[1:]) + part.start & WORD
    return keep_at(key, rate, index)


def keep_at(key: Key, rate: float, index):
    """The same for elements by their numbers. index: uint32, an array of the caller's that is used up."""
    x = index
    # The same stirring as _mix, with the key put in twice, so that two keys never give shifted copies of one mask.
    x ^= key.word
    x ^= x >> 16
    x *= 0x7FEB352D
    x ^= x >> 15
    x += key.word
    x *= 0x846CA68B
    x ^= x >> 16
    return x >= min(int(rate * 2**32), WORD)

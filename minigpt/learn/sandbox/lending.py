"""What the judge computes for a learner's file: operations that the file may borrow, such as `linear` for an MLP."""

import itertools
from collections.abc import Iterable
from typing import Any, NamedTuple

import numpy as np

from minigpt import ops
from minigpt.errors import InputError
from minigpt.ops import random_keys, reference

MAX_NUMBERS = 2**20  # in the arguments of one call, or in what a product of them gives
MAX_IN_PRODUCTS = 2**13  # the same, where the size of the result is not known: it may be the square of it
PRODUCTS = ("linear", "embedding", "attention", "lstm", *ops.composites)
MAX_MASK = 2**22  # elements of a mask
CACHES = "minigpt.ops."  # where the classes of caches are
MAX_CACHES = 2_000  # of borrowed operations at one time
MAX_CACHED = 2**28  # bytes of them all


class Lent(NamedTuple):
    """The cache of an operation that the process has called, as the judge's code holds it."""

    op: str
    cache: Any
    size: int = 0  # bytes that it holds


class Lender:
    """Answers calls of borrowed operations. allowed: the operations that are lent, by name; None: nothing yet.

    The reference computes. Caches stay here; the process has their numbers. Caches that an exercise's own judge has
    made by `ops` are numbered too, when they are given to the process.
    """

    def __init__(self, allowed: Iterable[str] | None = None):
        self.allowed = allowed
        self._caches: dict[int, Lent] = {}
        self._held = 0  # bytes
        self._numbers = itertools.count(1)

    def number_of(self, value: Any) -> int | None:
        """A number for a cache that is given to the process; None for every other value."""
        if isinstance(value, Lent):
            return self._keep(value)
        if isinstance(value, tuple) and type(value).__module__.startswith(CACHES) and not isinstance(value, ops.Key):
            return self._keep(Lent("", value))
        return None

    def of(self, number: int) -> Lent:
        """The cache that the process has returned by its number. Raises ValueError where there is none."""
        if type(number) is not int or number not in self._caches:
            raise ValueError(f"no cache has the number {number}")
        return self._caches[number]

    def answer(self, name: Any, args: Any, constants: Any, gone: Any) -> tuple[str, Any]:
        """("lent", the result), or ("refused", (the name of an error, its message)).

        gone: numbers of caches that are not needed any more. All of it comes from the process, and may be anything.
        """
        self.forget(gone)
        try:
            return "lent", self._computed(name, args, constants)
        except Exception as error:
            kind = "TypeError" if isinstance(error, TypeError) else "ValueError"
            return "refused", (kind, " ".join(str(error).split())[:500])

    def forget(self, gone: Any) -> None:
        """Drop the caches of these numbers."""
        for number in gone if isinstance(gone, tuple) else ():
            if isinstance(number, int) and number in self._caches:
                self._held -= self._caches.pop(number).size

    def _computed(self, name, args, constants):
        if not isinstance(name, str) or not isinstance(args, tuple) or not isinstance(constants, dict):
            raise InputError("a call of a borrowed operation that is none")
        if name == "keep_mask":
            return _keep_mask(*args)
        if name in SHAPING:
            return SHAPING[name](*args)
        op, _, way = name.rpartition("_")
        if op not in ops.names or way not in ("forward", "backward"):
            raise InputError(f"minigpt.ops has no {name} here")
        if self.allowed is None:
            raise InputError(f"{name} is not lent while the file is loaded: call it in a function")
        if op not in self.allowed:
            raise InputError(f"{name} is not lent to this file: write it yourself")
        if not _is_small(op, way, args, constants):
            raise InputError(f"{name} is lent for small arrays only")
        with np.errstate(all="ignore"):
            return self._forward(op, args, constants) if way == "forward" else self._backward(op, *args)

    def _forward(self, op, args, constants):
        if len(self._caches) >= MAX_CACHES:
            raise InputError(f"{MAX_CACHES:,} caches of borrowed operations are kept: too many")
        if self._held > MAX_CACHED:
            raise InputError(f"caches of borrowed operations hold more than {MAX_CACHED // 2**20} MB: too much")
        try:
            out, cache = getattr(reference, f"{op}_forward")(*args, **constants)
        except Exception:
            ops.explain(op, *args, **constants)  # it says better what does not fit
            raise
        return out, self._keep(Lent(op, cache))

    def _backward(self, op, dout, number):
        lent = self._caches.get(number)
        if lent is None or lent.op not in (op, ""):
            raise InputError(f"{op}_backward takes what {op}_forward cached")
        implementation = reference if lent.op else ops
        return getattr(implementation, f"{op}_backward")(dout, lent.cache)

    def _keep(self, lent):
        number = next(self._numbers)
        self._caches[number] = lent._replace(size=ops.nbytes(lent.cache))
        self._held += self._caches[number].size
        return number


def _causal_mask(n_queries, n_keys, xp=None):
    if not (isinstance(n_queries, int) and isinstance(n_keys, int) and 0 <= n_queries * n_keys <= MAX_MASK):
        raise InputError(f"causal_mask takes two lengths, and is lent for at most {MAX_MASK:,} elements")
    return ops.causal_mask(n_queries, n_keys, np)


SHAPING = {"causal_mask": _causal_mask, "split_heads": ops.split_heads, "merge_heads": ops.merge_heads}


def _keep_mask(key, rate, shape):
    if not isinstance(key, random_keys.Key) or not isinstance(shape, tuple):
        raise InputError("keep_mask takes a key, a rate and a shape")
    size = 1
    for length in shape:
        size *= int(length)
        if not 0 <= size <= MAX_MASK:
            raise InputError(f"a mask of shape {shape}: at most {MAX_MASK:,} elements are lent")
    return random_keys.keep_mask(key, float(rate), shape, np)


def _is_small(op, way, args, constants):
    """Is the result sure to fit in memory?"""
    count = _count((args, constants))
    if op == "linear" and way == "forward" and len(args) >= 2 and all(_is_matrix(one) for one in args[:2]):
        x, w = args[:2]
        return max(count, x.size // max(1, x.shape[-1]) * w.shape[-1]) <= MAX_NUMBERS
    return count <= (MAX_IN_PRODUCTS if op in PRODUCTS and way == "forward" else MAX_NUMBERS)


def _is_matrix(value):
    return isinstance(value, np.ndarray) and value.ndim >= 2


def _count(value):
    """How many numbers a value holds."""
    if isinstance(value, dict):
        return sum(map(_count, value.values()))
    if isinstance(value, (tuple, list, set)):
        return sum(map(_count, value))
    return np.size(value) if isinstance(value, np.ndarray) else 1

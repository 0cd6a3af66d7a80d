"""What the judge computes for a learner's file: operations that the file may borrow, such as `linear` for an MLP."""

from collections.abc import Iterable
from typing import Any

import numpy as np

from minigpt import ops
from minigpt.errors import InputError
from minigpt.learn.sandbox.wire import Borrowed
from minigpt.ops import random_keys, reference

MAX_NUMBERS = 2**20  # in the arguments of one call, or in what a product of them gives
MAX_IN_PRODUCTS = 2**13  # the same, where the size of the result is not known: it may be the square of it
PRODUCTS = ("linear", "embedding", "attention", "lstm", *ops.composites)
MAX_MASK = 2**22  # elements of a mask
CACHES = "minigpt.ops."  # where the classes of caches are
GIVEN_AWAY_BY = {  # an operation: the others that give its numbers, for inputs that are chosen well
    "linear": ("mlp", "gated_mlp", "linear_cross_entropy", "lstm"),
    "embedding": ("linear",),  # a row of ones and zeros picks a row
    "softmax": (  # the probabilities are the output for v = 1, or a part of the gradient of the loss
        "attention", "self_attention", "cross_attention", "cross_entropy", "soft_cross_entropy", "linear_cross_entropy",
    ),
    "attention": ("self_attention", "cross_attention"),
    "gelu": ("mlp", "gated_mlp"),  # with weights of ones and zeros
    "gelu_exact": ("mlp", "gated_mlp"),
    "relu": ("mlp", "gated_mlp"),
    "silu": ("mlp", "gated_mlp"),
    "layernorm": ("rmsnorm",),  # of x - mean
    "rmsnorm": ("layernorm",),  # of x and -x side by side
    "rope": (),
    "dropout": ("attention", "self_attention", "cross_attention", "gated_mlp"),
    "cross_entropy": ("linear_cross_entropy", "soft_cross_entropy"),
    "soft_cross_entropy": ("cross_entropy", "linear_cross_entropy"),  # a mean over targets
    "self_attention": ("cross_attention",),
    "cross_attention": ("self_attention",),
    "linear_cross_entropy": (),
    "mlp": ("gated_mlp",),  # with a column of ones in x
    "gated_mlp": (),
    "lstm": (),
    "cosine_loss": (),
}  # fmt: skip


def lent_to(written: Iterable[str]) -> frozenset[str]:
    """The operations that a file may borrow which writes these itself: such as linear and gelu for an mlp."""
    kept = set(written)
    for op in written:
        kept.update(GIVEN_AWAY_BY[op])
    return frozenset(ops.names) - kept


class Lender:
    """Answers calls of borrowed operations. allowed: the operations that are lent, by name; None: nothing yet.

    The reference computes, and nothing is kept: for a backward pass it computes the forward pass again. Only caches
    that an exercise's own judge has made by `ops` are kept, when they are given to the process.
    """

    def __init__(self, allowed: Iterable[str] | None = None):
        self.allowed = allowed
        self._given: dict[int, Any] = {}

    def as_borrowed(self, value: Any) -> Any:
        """A cache of the library as the process has it; every other value as it is."""
        if not isinstance(value, tuple) or isinstance(value, ops.Key) or not type(value).__module__.startswith(CACHES):
            return value
        self._given[id(value)] = value
        return Borrowed("", (id(value),), {})

    def answer(self, name: Any, args: Any, constants: Any) -> tuple[str, Any]:
        """("lent", the result), or ("refused", (the name of an error, its message)).

        All of it comes from the process, and may be anything.
        """
        try:
            return "lent", self._computed(name, args, constants)
        except Exception as error:
            kind = "TypeError" if isinstance(error, TypeError) else "ValueError"
            return "refused", (kind, " ".join(str(error).split())[:500])

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
        with np.errstate(all="ignore"):
            if way == "forward":
                return _forward(op, args, constants)[0]
            return self._backward(op, *args)

    def _backward(self, op, dout, cache):
        if _count(dout) > MAX_NUMBERS:
            raise InputError(f"{op}_backward is lent for small arrays only")
        if isinstance(cache, Borrowed) and cache.op == op:
            _, made = _forward(op, cache.args, cache.constants)
            return getattr(reference, f"{op}_backward")(dout, made)
        if isinstance(cache, Borrowed) and cache.op == "" and cache.args[0] in self._given:
            return getattr(ops, f"{op}_backward")(dout, self._given[cache.args[0]])
        raise InputError(f"{op}_backward takes what {op}_forward cached")


def _forward(op, args, constants):
    if not _is_small(op, args, constants):
        raise InputError(f"{op}_forward is lent for small arrays only")
    try:
        return getattr(reference, f"{op}_forward")(*args, **constants)
    except Exception:
        ops.explain(op, *args, **constants)  # it says better what does not fit
        raise


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


def _is_small(op, args, constants):
    """Is the result sure to fit in memory?"""
    count = _count((args, constants))
    if op == "linear" and len(args) >= 2 and all(_is_matrix(one) for one in args[:2]):
        x, w = args[:2]
        return max(count, x.size // max(1, x.shape[-1]) * w.shape[-1]) <= MAX_NUMBERS
    return count <= (MAX_IN_PRODUCTS if op in PRODUCTS else MAX_NUMBERS)


def _is_matrix(value):
    return isinstance(value, np.ndarray) and value.ndim >= 2


def _count(value):
    """How many numbers a value holds."""
    if isinstance(value, dict):
        return sum(map(_count, value.values()))
    if isinstance(value, (tuple, list, set)):
        return sum(map(_count, value))
    return np.size(value) if isinstance(value, np.ndarray) else 1

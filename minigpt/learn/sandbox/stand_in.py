"""What a learner's file can import besides the standard library: NumPy, and a stand-in for minigpt.

Operations of the stand-in are borrowed: the judge computes them. This file needs the standard library only: the
learner's process loads it by its path.
"""

import importlib.abc
import importlib.machinery
import sys
import types

SHAPING = ("causal_mask", "split_heads", "merge_heads")


class Finder(importlib.abc.MetaPathFinder):
    """Finds NumPy where the judge has it, without what lies beside it, and of minigpt a stand-in."""

    def __init__(self, site):
        self.site = site

    def find_spec(self, name, path=None, target=None):
        """Where NumPy is. Raises ImportError for what minigpt has, but not here."""
        if name == "numpy":
            return importlib.machinery.PathFinder.find_spec(name, [self.site])
        if name.partition(".")[0] == "minigpt":
            raise ImportError(
                f"there is no {name} here: your file runs with NumPy alone, and of minigpt with minigpt.ops"
            )
        return None


def put_in_place(operations, constants, wire, borrow):
    """Put modules minigpt, minigpt.ops and minigpt.ops.random_keys in place, whose functions are borrowed.

    wire: the module with the classes of keys and caches. borrow(name, args, constants) returns what the judge computes.
    """
    face = types.ModuleType("minigpt", "A stand-in: what a judged file has of minigpt.")
    ops = types.ModuleType("minigpt.ops", "Operations that the judge computes.")
    keys = types.ModuleType("minigpt.ops.random_keys", "Keys, and the masks that belong to them.")
    for module in (face, ops):
        module.__path__ = []

    def put(function, name):
        function.__name__ = function.__qualname__ = name
        function.__module__ = "minigpt.ops"
        setattr(ops, name, function)

    for op in operations:
        forward, backward = pair(op, wire.Borrowed, borrow)
        put(forward, f"{op}_forward")
        put(backward, f"{op}_backward")
    for name in SHAPING:
        put(shaping(name, borrow), name)
    vars(ops).update(constants)

    def keep_mask(key, rate, shape, xp=None):
        """Which elements a dropout of this rate keeps: a boolean array of the shape."""
        return borrow("keep_mask", (key, rate, tuple(shape)), {})

    keep_mask.__module__ = keys.__name__
    vars(keys).update(keep_mask=keep_mask, Key=wire.Key)
    vars(ops).update(random_keys=keys, Key=wire.Key)
    vars(face).update(ops=ops)
    sys.modules.update({module.__name__: module for module in (face, ops, keys)})


def pair(op, borrowed, borrow):
    """Forward and backward of an operation that the judge computes."""

    def forward(*args, **constants):
        return borrow(f"{op}_forward", args, constants), borrowed(op, args, constants)

    def backward(*given):
        if len(given) != 2 or not isinstance(given[1], borrowed):
            raise TypeError(f"{op}_backward takes dout, and the cache that its forward gave here")
        return borrow(f"{op}_backward", given, {})

    return forward, backward


def shaping(name, borrow):
    """A function that the judge computes, and that is no pair."""

    def function(*args):
        if name == "causal_mask":
            args = args[:2]  # without the module that makes it: that is NumPy
        return borrow(name, args, {})

    return function

"""What a learner's file can import besides the standard library: NumPy, and a stand-in for minigpt.

Operations of the stand-in are borrowed: the judge computes them. This file needs the standard library only: the
learner's process loads it by its path.
"""

import importlib.abc
import importlib.machinery
import sys
import types

WAYS = ("_forward", "_backward")
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


class Borrowed:
    """The cache of a borrowed operation: the judge has it, under a number."""

    def __init__(self, number, dropped):
        self.number = number
        self.dropped = dropped

    def __repr__(self):
        return "<the cache of a borrowed operation>"

    def __del__(self):
        self.dropped.append(self.number)


def put_in_place(operations, constants, key, borrow):
    """Put modules minigpt, minigpt.ops and minigpt.ops.random_keys in place, whose functions are borrowed."""
    face = types.ModuleType("minigpt", "A stand-in: what a judged file has of minigpt.")
    ops = types.ModuleType("minigpt.ops", "Operations that the judge computes.")
    keys = types.ModuleType("minigpt.ops.random_keys", "Keys, and the masks that belong to them.")
    for module in (face, ops):
        module.__path__ = []
    for op in operations:
        for way in WAYS:
            setattr(ops, op + way, borrowing(op + way, borrow))
    for name in SHAPING:
        setattr(ops, name, borrowing(name, borrow))
    vars(ops).update(constants)

    def keep_mask(key, rate, shape, xp=None):
        """Which elements a dropout of this rate keeps: a boolean array of the shape."""
        return borrow("keep_mask", (key, rate, tuple(shape)), {})

    keep_mask.__module__ = keys.__name__
    keys.keep_mask = keep_mask
    ops.Key = keys.Key = key
    ops.random_keys = keys
    face.ops = ops
    sys.modules.update({module.__name__: module for module in (face, ops, keys)})


def borrowing(name, borrow):
    """The function of this name that the judge computes."""

    def function(*args, **constants):
        if name == "causal_mask":
            args = args[:2]  # without the module that makes it: that is NumPy
        if name.endswith("_backward"):
            if len(args) != 2 or not isinstance(args[1], Borrowed):
                raise TypeError(f"{name} takes dout, and the cache that its forward gave here")
            args = (args[0], args[1].number)
        return borrow(name, args, constants)

    function.__name__ = function.__qualname__ = name
    function.__module__ = "minigpt.ops"
    return function

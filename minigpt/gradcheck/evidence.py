"""What a wrong gradient can be compared with: inputs, outputs, the cache, other gradients, other arguments."""

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from minigpt.device.arrays import Array, to_numpy

CLOSE = 1e-6  # two arrays that differ by less, beside their largest entry, are the same as far as differences can tell


@dataclass
class Evidence:
    """Everything that a wrong gradient may be compared with, under the names that a sentence calls it by.

    arrays: inputs, array constants, out, dout and what the cache holds; constants: also those that are no arrays; name:
    the input whose gradient it is; gradients: the true ones, none for an output; again(**changes): the true one for
    other inputs, constants or another dout; saved: what the cache holds, also where it is an output that is judged.
    """

    arrays: dict[str, Any]
    constants: dict[str, Any] = field(default_factory=dict)
    name: str = ""
    gradients: dict[str, Any] = field(default_factory=dict)
    again: Callable | None = None
    saved: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self):
        self.arrays = {name: to_numpy(array) for name, array in self.arrays.items()}
        self.others = {name: to_numpy(array) for name, array in self.gradients.items()}
        self.saved = {name: to_numpy(array) for name, array in self.saved.items()}
        self.others.pop(self.name, None)
        self.floats = _of_kind("f", self.arrays)
        self.ids = _of_kind("iu", self.arrays)
        self.dout = self.floats.get("dout", np.zeros(()))

    @property
    def scale(self) -> float:
        """The largest entry of the other gradients and of out * dout: a gradient that is zero is measured by it."""
        arrays = list(self.others.values())
        if "dout" in self.floats and "out" in self.floats:
            arrays.append(self.floats["out"] * self.dout)
        largest = [float(abs(array).max()) for array in arrays]
        return max(largest, default=0.0)

    @property
    def sizes(self) -> list[int]:
        """The numbers above 1 that a sum or a mean may run over: lengths of axes, rows, targets that count."""
        sizes = set()
        for ids in self.ids.values():
            targets = int((ids >= 0).sum())
            sizes.add(targets)
        for array in [*self.arrays.values(), *self.others.values()]:
            rows = math.prod(array.shape[:-1])
            sizes.add(rows)
            sizes.update(array.shape)
        return sorted(sizes - {0, 1})

    def true_with(self, name: str, value: Any) -> Array:
        """What would be true for another value of an input, a constant or dout; empty where that makes no sense."""
        if self.again is None:
            return np.zeros(0)
        try:
            return to_numpy(self.again(**{name: value}))
        except Exception:  # a forward pass may need what was taken away
            return np.zeros(0)


def same(x: Array, y: Array) -> bool:
    """Equal up to what a numeric gradient can tell, measured by the largest entry, and not zero."""
    if x.shape != y.shape:
        return False
    largest = np.max([abs(x), abs(y)], initial=0)
    if not largest > 0:
        return False
    difference = abs(x - y).max()
    return bool(difference <= CLOSE * largest)


def leaves(value: Any, path: str = "") -> dict[str, Any]:
    """The arrays in a value of dicts, tuples and lists, each once, by their paths."""
    found = {}
    _collect(value, path, found)
    return found


def _collect(value, path, found):
    if hasattr(value, "dtype"):
        known = any(value is other for other in found.values())
        if not known:
            found[path] = value
    if isinstance(value, (tuple, list)):
        fields = getattr(value, "_fields", range(len(value)))
        value = dict(zip(fields, value, strict=True))
    if isinstance(value, dict):
        for key, item in value.items():
            inner = f"{path}.{key}" if path else str(key)
            _collect(item, inner, found)


def is_float(value: Any) -> bool:
    """Is it an array of floats?"""
    return hasattr(value, "dtype") and value.dtype.kind == "f"


def floats_in(inputs: dict[str, Any]) -> dict[str, Any]:
    """Those of the inputs that are arrays of floats."""
    found = {}
    for name, value in inputs.items():
        if is_float(value):
            found[name] = value
    return found


def _of_kind(kinds: str, arrays: dict[str, Array]) -> dict[str, Array]:
    """Those of the arrays whose dtype is of one of these kinds, such as "f" and "i"."""
    found = {}
    for name, array in arrays.items():
        if array.dtype.kind in kinds:
            found[name] = array
    return found

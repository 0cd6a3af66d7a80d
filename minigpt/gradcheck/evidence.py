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
    other inputs, constants or another dout.
    """

    arrays: dict[str, Any]
    constants: dict[str, Any] = field(default_factory=dict)
    name: str = ""
    gradients: dict[str, Any] = field(default_factory=dict)
    again: Callable | None = None

    def __post_init__(self):
        self.arrays = {name: to_numpy(array) for name, array in self.arrays.items()}
        self.others = {name: to_numpy(array) for name, array in self.gradients.items() if name != self.name}
        self.floats = {name: array for name, array in self.arrays.items() if array.dtype.kind == "f"}
        self.ids = {name: array for name, array in self.arrays.items() if array.dtype.kind in "iu"}
        self.dout = self.floats.get("dout", np.zeros(()))

    @property
    def scale(self) -> float:
        """The largest entry of the other gradients and of out * dout: a gradient that is zero is measured by it."""
        arrays = list(self.others.values())
        if "dout" in self.floats:
            arrays.append(self.floats["out"] * self.dout)
        return max((float(abs(array).max()) for array in arrays), default=0.0)

    @property
    def sizes(self) -> list[int]:
        """The numbers above 1 that a sum or a mean may run over: lengths of axes, rows, targets that count."""
        sizes = {int((ids >= 0).sum()) for ids in self.ids.values()}
        for array in [*self.arrays.values(), *self.others.values()]:
            sizes.update(array.shape, [math.prod(array.shape[:-1])])
        return sorted(sizes - {0, 1})

    def true_for(self, **changes) -> Array:
        """What would be true for other arguments; empty where they make no sense."""
        try:
            return to_numpy(self.again(**changes))
        except Exception:  # a forward pass may need what was taken away
            return np.zeros(0)


def same(x: Array, y: Array) -> bool:
    """Equal up to what a numeric gradient can tell, measured by the largest entry, and not zero."""
    if x.shape != y.shape:
        return False
    largest = np.max([abs(x), abs(y)], initial=0)
    return bool(largest > 0 and abs(x - y).max() <= CLOSE * largest)


def leaves(value: Any, path: str = "") -> dict[str, Any]:
    """The arrays in a value of dicts, tuples and lists, each once, by their paths."""
    found = {}
    _collect(value, path, found)
    return found


def _collect(value, path, found):
    if hasattr(value, "dtype") and not any(value is other for other in found.values()):
        found[path] = value
    if isinstance(value, (tuple, list)):
        fields = getattr(value, "_fields", range(len(value)))
        value = dict(zip(fields, value, strict=True))
    if isinstance(value, dict):
        for key, item in value.items():
            _collect(item, f"{path}.{key}".lstrip("."), found)

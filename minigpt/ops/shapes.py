"""The shape line of an operation, read by a machine: from it come example arguments for every check.

    x (*,C), g (C,), b (C,) -> out (*,C)

Left of the arrow stands what goes in, right of it what comes out; `*` is any number of leading axes, `3C` three times
C, `()` a single number, `int` whole numbers from 0 to V - 1. A line that is parsed and run cannot rot.
"""

import inspect
import re
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

# Pairwise distinct with LEADING wherever they meet, so that no axis can be taken for another; C > B T, so that a matrix
# of width C has more columns than the batch has rows. Where one letter has another size, say so in `sizes`.
SIZES = {"B": 2, "H": 3, "T": 4, "S": 5, "D": 7, "I": 8, "N": 9, "F": 10, "O": 11, "V": 13, "C": 15}
LEADING = (2, 3)
NUMBERS = {"n_head": 3}  # positional arguments that are no arrays


class Tensor(NamedTuple):
    """One array of a shape line: its name, its axes ("*", "C", "3C", ...), and whether it holds whole numbers."""

    name: str
    axes: tuple[str, ...]
    integer: bool = False

    def shape(self, leading: tuple[int, ...] = LEADING, sizes: dict[str, int] | None = None) -> tuple[int, ...]:
        """The shape for these sizes."""
        shape = []
        for axis in self.axes:
            if axis == "*":
                shape += leading
            else:
                times, letter = re.fullmatch(r"(\d*)(\w+)", axis).groups()
                shape.append(int(times or 1) * (SIZES | (sizes or {}))[letter])
        return tuple(shape)


def parse(line: str) -> tuple[list[Tensor], list[Tensor]]:
    """What goes in and what comes out. Raises ValueError for a line that is no shape line."""
    left, arrow, right = line.partition("->")
    sides = [[_tensor(*match) for match in re.findall(r"(\w+) \(([^()]*)\)( int\b)?", side)] for side in (left, right)]
    if not (arrow and all(sides)):
        raise ValueError(f"not a shape line such as `x (*,C) -> out (*,C)`: {line!r}")
    return sides[0], sides[1]


def of(function: Callable) -> tuple[list[Tensor], list[Tensor]]:
    """`parse` of the first line of a function's docstring."""
    return parse(inspect.getdoc(function).splitlines()[0])


def _tensor(name: str, axes: str, integer: str) -> Tensor:
    return Tensor(name, tuple(axis.strip() for axis in axes.split(",") if axis.strip()), bool(integer))


def examples(
    function: Callable, leading: tuple[int, ...] = LEADING, sizes: dict[str, int] | None = None, seed: int = 0
) -> dict[str, Any]:
    """Arguments for a forward function by its shape line: {"x": array, "g": array, "b": array}, in order.

    Floats are float64, between 0.25 and 1.5 in size and of either sign: away from 0, from 1 and from any initial point.
    Whole numbers have repeats among them, and leave some rows out.
    """
    rng, arrays = np.random.default_rng(seed), {}
    for tensor in of(function)[0]:
        shape = tensor.shape(leading, sizes)
        if tensor.integer:
            ids = rng.integers(0, (SIZES | (sizes or {}))["V"], shape)
            ids.flat[-1:] = ids.flat[:1]
            arrays[tensor.name] = ids
        else:
            arrays[tensor.name] = rng.uniform(0.25, 1.5, shape) * rng.choice([-1, 1], shape)
    order = [name for name in inspect.signature(function).parameters if name in arrays or name in NUMBERS]
    return {name: arrays.get(name, NUMBERS.get(name)) for name in order}


def leading_axes(function: Callable) -> list[tuple[int, ...]]:
    """Leading axes that give the first array with a `*` three, four and two axes (if it has others than the `*`)."""
    starred = [tensor for tensor in of(function)[0] if "*" in tensor.axes]
    others = len(starred[0].axes) - 1 if starred else None
    return {0: [(2, 3, 4), (2, 3), (3,)], 1: [(2, 3), (2, 3, 4), (3,)], 2: [(2, 3), (3,), ()]}.get(others, [LEADING])

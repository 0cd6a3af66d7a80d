"""The shape line of an operation, read by a program: from it come example arguments for every check.

    x (*,C), g (C,), b (C,) -> out (*,C)

Left of the arrow stands what goes in, right of it what comes out; `*` is any number of leading axes, `3C` three times
C, `()` a single number, `int` whole numbers from 0 to V - 1; brackets, as in `[bias (O,)]`, stand around what a call
may leave out, and around its gradient, which is None then. A line that is parsed and run stays true.
"""

import inspect
import re
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

Axes = tuple[int, ...]
Sizes = dict[str, int] | None

# Pairwise distinct with LEADING wherever they meet, so that no axis can be taken for another; C > B T, so that a matrix
# of width C has more columns than the batch has rows. Where one letter has another size, say so in `sizes`.
SIZES = {"B": 2, "H": 3, "T": 4, "S": 6, "D": 7, "I": 8, "N": 9, "F": 10, "O": 11, "V": 13, "C": 15}
SIZES |= {"NH": 3, "HS": 5, "P": 6}  # heads, the columns of each (C/NH), and earlier positions
LEADING = {0: (), 1: (3,), 2: (2, 3), 3: (2, 3, 4), 4: (2, 3, 4, 5)}  # what `*` stands for, by its number of axes
NUMBERS = {"n_head": SIZES["NH"]}  # positional arguments that are no arrays


class Tensor(NamedTuple):
    """One array of a shape line: its name, its axes ("*", "C", "3C", "1", ...), and whether it holds whole numbers.

    optional: it stands in brackets.
    """

    name: str
    axes: tuple[str, ...]
    integer: bool = False
    optional: bool = False

    def shape(self, leading: Axes = LEADING[2], sizes: Sizes = None) -> Axes:
        """The shape with these leading axes in the place of `*`, and SIZES, some of them replaced by `sizes`."""
        sizes = SIZES | (sizes or {})
        shape = []
        for axis in self.axes:
            if axis == "*":
                shape += leading
                continue
            times, letters = factors(axis)
            shape.append(times * sizes[letters] if letters else times)
        return tuple(shape)


def factors(axis: str) -> tuple[int, str]:
    """An axis of a shape line as a number and letters: "3C" is (3, "C"), "C" is (1, "C"), "1" is (1, "").

    Raises ValueError for another text.
    """
    found = re.fullmatch(r"(\d*)([A-Z]*)", axis)
    if found is None:
        raise ValueError(f"not an axis of a shape line, such as C or 3C: {axis!r}")
    times, letters = found.groups()
    return int(times or 1), letters


def parse(line: str) -> tuple[list[Tensor], list[Tensor]]:
    """What goes in and what comes out. Raises ValueError for a line that is no shape line."""
    left, arrow, right = line.partition("->")
    inputs = _tensors(left)
    outputs = _tensors(right)
    if not (arrow and inputs and outputs):
        raise ValueError(f"not a shape line such as `x (*,C) -> out (*,C)`: {line!r}")
    return inputs, outputs


def _tensors(side):
    found = []
    for bracket, name, axes, integer in re.findall(r"(\[?)(\w+) \(([^()]*)\)( int\b)?", side):
        letters = [axis.strip() for axis in axes.split(",")]
        found.append(Tensor(name, tuple(filter(None, letters)), bool(integer), bool(bracket)))
    return found


def of(function: Callable) -> tuple[list[Tensor], list[Tensor]]:
    """`parse` of the first line of a function's docstring. Raises ValueError where that is no shape line."""
    first_line, _, _ = (inspect.getdoc(function) or "").partition("\n")
    return parse(first_line)


def examples(
    function: Callable,
    leading: Axes = LEADING[2],
    sizes: Sizes = None,
    seed: int = 0,
    optional: bool = True,
) -> dict[str, Any]:
    """Arguments for a forward function by its shape line: {"x": array, "g": array, "b": array}, in order.

    Floats are float64, between 0.25 and 1.5 in size and of either sign: away from 0, from 1 and from any initial point.
    Whole numbers have repeats among them, and leave some rows out. optional=False: without what stands in brackets.
    Raises ValueError as `of` does.
    """
    rng = np.random.default_rng(seed)
    values: dict[str, Any] = dict(NUMBERS)
    for tensor in of(function)[0]:
        if tensor.optional and not optional:
            continue
        shape = tensor.shape(leading, sizes)
        if tensor.integer:
            ids = rng.integers(0, (SIZES | (sizes or {}))["V"], shape)
            ids.flat[-1:] = ids.flat[:1]
            values[tensor.name] = ids
        else:
            values[tensor.name] = rng.uniform(0.25, 1.5, shape) * rng.choice([-1, 1], shape)
    return {name: values[name] for name in inspect.signature(function).parameters if name in values}


def leading_axes(function: Callable) -> dict[int, Axes]:
    """Number of axes of the data -> what `*` then stands for. The usual number is first; without a `*` there is one.

    The data are the input or output with the most axes; it has two to four of them.
    """
    inputs, outputs = of(function)
    starred = [tensor for tensor in inputs + outputs if "*" in tensor.axes]
    if not starred:
        return {len(outputs[0].axes): LEADING[2]}
    others = max(len(tensor.axes) for tensor in starred) - 1
    usual = max(3, 2 + others)
    leading = {usual: LEADING[usual - others]}
    for axes in (2, 3, 4):
        leading.setdefault(axes, LEADING[axes - others])
    return leading

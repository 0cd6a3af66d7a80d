"""One tensor of a trace, looked at closely; and one entry of a gradient against finite differences."""

import contextlib
import difflib
import re
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

from minigpt import ops
from minigpt.device.arrays import Array
from minigpt.errors import InputError
from minigpt.learn.tracing.rows import FORWARD, Trace
from minigpt.learn.tracing.sums import WIDTH
from minigpt.learn.tracing.table import MODEL, shape
from minigpt.models.language_model import LanguageModel
from minigpt.nn import Parameter

STEP = 1e-5  # of a parameter to either side, in float64
FIRST = 6  # entries that are shown
NUMBERED = re.compile(r"(\d+)(?:\.(\w+))?")


class Wanted(NamedTuple):
    """What `--tensor` names: a parameter, or the arrays of a row, or one of these by its name."""

    text: str
    parameter: str | None = None
    number: int | None = None
    name: str | None = None


class Compared(NamedTuple):
    """One entry of a gradient: where it is, by the backward pass (yours), and by finite differences (true)."""

    index: tuple[int, ...]  # type: ignore[assignment]  # a place, and not a tuple's method
    yours: float
    true: float


def wanted(text: str, model: LanguageModel) -> Wanted:
    """What is wanted by this text: "h.0.attn.c_attn.weight", "12" or "12.dx".

    Raises InputError for what is neither a number nor a parameter's name, with the name that is like it.
    """
    names = [name for name, _ in model.named_parameters()]
    if text in names:
        return Wanted(text, parameter=text)
    match = NUMBERED.fullmatch(text)
    if match:
        return Wanted(text, number=int(match.group(1)), name=match.group(2))
    near = difflib.get_close_matches(text, names, n=1)
    like = f"; did you mean {near[0]}?" if near else ""
    example = f"a parameter such as {names[0]}, or a number of the table: 12, 12.out, 12.dx"
    raise InputError(f"--tensor {text} names no tensor of this model: give {example}{like}")


def show(traced: Trace, which: Wanted, inputs: dict[str, Any], implementation: str) -> Iterator[str]:
    """Lines about what is wanted. Raises InputError for a number, or a name, that the trace does not have."""
    if which.parameter is not None:
        yield from _show_parameter(traced, which.parameter, inputs, implementation)
        return
    found = _arrays(traced, which)
    rows = [row for row in traced.rows if row.number == which.number]
    yield f"{which.number} {rows[0].module or MODEL} {rows[0].op}"
    for name, array in found.items():
        yield from _describe(name, array)


def _arrays(traced: Trace, which: Wanted) -> dict[str, Array]:
    """The arrays of a row, or the one that is wanted."""
    last = max(row.number for row in traced.rows)
    if not 1 <= which.number <= last:
        raise InputError(f"--tensor {which.text}: the numbers of the table go from 1 to {last}: give one of them")
    if which.name is None:
        return traced.kept
    if which.name not in traced.kept:
        known = ", ".join(traced.kept)
        near = difflib.get_close_matches(which.name, traced.kept, n=1)
        like = f"; did you mean {which.number}.{near[0]}?" if near else ""
        op = next(row.op for row in traced.rows if row.number == which.number)
        raise InputError(f"--tensor {which.text}: number {which.number}, {op}, has no {which.name}: give {known}{like}")
    return {which.name: traced.kept[which.name]}


def _show_parameter(traced: Trace, name: str, inputs: dict[str, Any], implementation: str) -> Iterator[str]:
    """Value, gradient, where it is used, and its largest entry against finite differences."""
    parameter = dict(traced.model.named_parameters())[name]
    yield name
    uses = []
    for row in traced.way(FORWARD):
        uses += [f"{row.number}.{tensor.name}" for tensor in row.inputs if tensor.parameter == name]
    yield f"  used as {', '.join(uses)}" if uses else "  no operation is given it"
    yield from _describe("value", parameter.data)
    if parameter.grad is None:
        why = "there is no loss" if traced.loss is None else "this loss does not depend on it"
        yield f"  gradient: none: {why}"
        return
    yield from _describe("gradient", parameter.grad)
    with ops.using(implementation):
        index, yours, true = largest_entry(traced.model, parameter, inputs)
    place = ", ".join(map(str, index))
    yield f"  its largest entry, at [{place}], and by finite differences of the loss in float64:"
    ratio = f"yours/true {yours / true:.6f}" if true else "both should be 0"
    yield f"    yours {yours:.8g}, true {true:.8g}: {ratio}"


def _describe(name: str, array: Array) -> Iterator[str]:
    """Two lines: shape, dtype, mean, standard deviation, least, largest; and the first entries."""
    array = np.asarray(array)
    yield f"  {name}: {shape(array.shape)} {array.dtype}"
    if not array.size:
        return
    if array.dtype.kind == "f":
        wide = array.astype(np.float64)
        figures = {"mean": wide.mean(), "std": wide.std(), "min": wide.min(), "max": wide.max()}
        yield "    " + "  ".join(f"{key} {value:.6g}" for key, value in figures.items())
    first = " ".join(_entry(value) for value in array.ravel()[:FIRST])
    more = " ..." if array.size > FIRST else ""
    yield f"    first {first}{more}"[:WIDTH]


def _entry(value: Any) -> str:
    return f"{value:.6g}" if isinstance(value, np.floating) else str(value)


# --- finite differences ----------------------------------------------------------------------------------------------


def largest_entry(model: LanguageModel, parameter: Parameter, inputs: dict[str, Any]) -> Compared:
    """The largest entry of a parameter's gradient, beside (loss(p + step) - loss(p - step)) / (2 step) in float64.

    The model is as it was before. inputs: of its loss.
    """
    size = np.abs(parameter.grad)
    index = tuple(int(i) for i in np.unravel_index(np.argmax(size), size.shape))
    with _in_float64(model):
        middle = parameter.data[index]
        losses = []
        for step in (STEP, -STEP):
            parameter.data[index] = middle + step
            loss, _ = model.loss(**inputs, grad=False)
            losses.append(float(loss))
    true = (losses[0] - losses[1]) / (2 * STEP)
    return Compared(index, float(parameter.grad[index]), true)


@contextlib.contextmanager
def _in_float64(model: LanguageModel) -> Iterator[None]:
    """Inside, the parameters are copies in float64."""
    before = [(parameter, parameter.data) for parameter in model.parameters()]
    try:
        for parameter, data in before:
            parameter.data = data.astype(np.float64)
        yield
    finally:
        for parameter, data in before:
            parameter.data = data

"""A trace as text, at most 100 columns wide."""

import textwrap
from collections.abc import Iterator

from minigpt.learn.tracing.rows import BACKWARD, FORWARD, Row, Tensor, Trace
from minigpt.learn.tracing.sums import WIDTH, sums

WIDEST_MODULE = 22
NUMBER, NORM, TIME, BYTES = 4, 9, 8, 11  # columns
ARROW = "->\0"  # "-> " that is not torn from what stands behind it
MODEL = "(model)"  # the name of a model among its modules


def table(traced: Trace) -> str:
    """The forward pass, the backward pass where there is a loss, and the sums, as lines of text."""
    parts = [_forward(traced), sums(traced)]
    if traced.loss is not None:
        parts.insert(1, _backward(traced))
    return "\n\n".join("\n".join(part) for part in parts)


def shape(sizes: tuple[int, ...]) -> str:
    """(2, 3) -> "(2,3)"; one axis of 5 is "(5,)"."""
    return str(tuple(sizes)).replace(" ", "")


def number(value: float | None) -> str:
    """A norm in four digits; "-" for None."""
    return "-" if value is None else f"{value:.4g}"


def module(row: Row, width: int = WIDEST_MODULE) -> str:
    """The path of a row's module; of a longer one the end, behind two dots."""
    path = row.module or MODEL
    return path if len(path) <= width else ".." + path[2 - width :]


def operation(row: Row) -> str:
    """The name of its operation, indented by how deep it is inside composites."""
    return "  " * row.depth + row.op


class _Columns:
    """How wide the first columns must be for these rows."""

    def __init__(self, rows: list[Row]):
        self.module = max(len(module(row)) for row in rows)
        self.operation = max(len(operation(row)) for row in rows)

    def start(self, row: Row) -> str:
        return f"{row.number:>{NUMBER}} {module(row):<{self.module}} {operation(row):<{self.operation}} "

    def heading(self) -> str:
        return f"{'no.':>{NUMBER}} {'module':<{self.module}} {'operation':<{self.operation}} "


# --- forward ---------------------------------------------------------------------------------------------------------


def _forward(traced: Trace) -> Iterator[str]:
    rows = traced.way(FORWARD)
    columns = _Columns(rows)
    heading = columns.heading()
    room = WIDTH - len(heading) - BYTES - NORM - TIME
    yield "forward: what comes in and goes out; the bytes that its cache adds to what is kept (without"
    yield "parameters, and each array once); the norm of what goes out; milliseconds"
    yield f"{heading}{'shapes':<{room}}{'kept':>{BYTES}}{'norm':>{NORM}}{'ms':>{TIME}}"
    for row in rows:
        start = columns.start(row)
        first, *more = _shapes(row, room)
        yield f"{start}{first:<{room}}{_figures(row)}"
        for line in more:
            yield " " * len(heading) + line


def _figures(row: Row) -> str:
    """Bytes, norm and time of a row of the forward pass."""
    kept = f"{row.kept_bytes:,}" if row.kept_bytes else "-"
    norm = number(row.outputs[0].norm)
    return f"{kept:>{BYTES}}{norm:>{NORM}}{_time(row)}"


def _time(row: Row) -> str:
    milliseconds = 1000 * row.seconds
    return f"{milliseconds:>{TIME}.3f}"


def _shapes(row: Row, room: int) -> list[str]:
    """What goes in and what comes out, in lines of at most so many columns."""
    inputs = [shape(tensor.shape) for tensor in row.inputs]
    output = ARROW + shape(row.outputs[0].shape)
    text = " ".join([*inputs, output])
    lines = textwrap.wrap(text, room - 1, break_on_hyphens=False, break_long_words=False)
    return [line.replace(ARROW, "-> ") for line in lines]


# --- backward --------------------------------------------------------------------------------------------------------


def _backward(traced: Trace) -> Iterator[str]:
    rows = traced.way(BACKWARD)
    columns = _Columns(rows)
    heading = columns.heading()
    room = WIDTH - len(heading) - NORM - TIME
    yield "backward, in reverse: the gradient that comes in, and below it each that goes out"
    yield f"{heading}{'gradient':<{room}}{'norm':>{NORM}}{'ms':>{TIME}}"
    for row in rows:
        first, *more = [_gradient(tensor, room) for tensor in row.inputs]
        yield columns.start(row) + first + _time(row)
        more += [_gradient(tensor, room, "-> ") for tensor in row.outputs]
        for line in more:
            yield " " * len(heading) + line


def _gradient(tensor: Tensor, room: int, arrow: str = "") -> str:
    """Name, shape and norm. arrow: what stands before one that goes out."""
    text = f"{arrow}{tensor.name} {shape(tensor.shape)}"
    return f"{text:<{room}}{number(tensor.norm):>{NORM}}"

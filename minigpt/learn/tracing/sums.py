"""What a trace sums up to: time by operation, bytes in caches, the loss, and the gradients."""

import textwrap
from collections.abc import Iterator
from dataclasses import dataclass

from minigpt.learn.tracing.rows import FORWARD, Row, Trace

WIDTH = 100
LARGEST = 10  # lines of the ledger that are shown


def sums(traced: Trace) -> Iterator[str]:
    """All of it, line by line."""
    yield from _time(traced.rows)
    yield ""
    yield from _bytes(traced)
    if traced.loss is not None:
        yield ""
        yield from _gradients(traced)


@dataclass
class _Times:
    """Milliseconds of the calls of one operation, without what runs inside them."""

    calls: int = 0
    forward: float = 0.0
    backward: float = 0.0

    @property
    def both(self) -> float:
        return self.forward + self.backward

    def add(self, row: Row) -> None:
        milliseconds = 1000 * row.own_seconds
        if row.way == FORWARD:
            self.calls += 1
            self.forward += milliseconds
        else:
            self.backward += milliseconds


def _time(rows: list[Row]) -> Iterator[str]:
    """A line for each operation, the slowest first."""
    by_operation: dict[str, _Times] = {}
    for row in rows:
        times = by_operation.setdefault(row.op, _Times())
        times.add(row)
    total = sum(times.both for times in by_operation.values())
    slowest_first = sorted(by_operation.items(), key=lambda item: item[1].both, reverse=True)
    yield "time by operation, in ms, without the operations inside it"
    yield f"{'operation':<22}{'calls':>6}{'forward':>10}{'backward':>10}{'both':>10}{'share':>8}"
    for op, times in slowest_first:
        share = times.both / total
        start = f"{op:<22}{times.calls:>6}"
        yield f"{start}{times.forward:>10.3f}{times.backward:>10.3f}{times.both:>10.3f}{share:>8.1%}"
    yield f"{'all':<48}{total:>10.3f}"


def _bytes(traced: Trace) -> Iterator[str]:
    """What the caches keep, and the largest of it."""
    activations = traced.activation_bytes
    of_modules = activations - traced.bytes_in_rows
    everything = sum(traced.ledger.values())
    yield f"bytes in caches: {activations:,}"
    yield f"  {traced.bytes_in_rows:,} are kept by operations, {of_modules:,} by modules themselves"
    yield f"  with the parameters that caches point to, which are there anyway: {everything:,}, as ops.nbytes says"
    yield f"  the {LARGEST} largest:"
    lines = [(size, path) for path, size in traced.ledger.items() if path not in traced.parameter_paths]
    lines.sort(key=lambda line: line[0], reverse=True)
    for size, path in lines[:LARGEST]:
        yield f"{size:>14,}  {path}"


def _gradients(traced: Trace) -> Iterator[str]:
    """The loss, how many parameters got a gradient, and which did not."""
    names = [name for name, _ in traced.model.named_parameters()]
    learned = traced.learned()
    numbers = sum(parameter.data.size for parameter in learned.values())
    yield f"loss: {traced.loss:.6f}"
    got = f"{len(learned)} of {len(names)} parameters, {numbers:,} numbers"
    yield f"gradients: {got}; global norm {traced.global_norm:.6g}"
    without = [name for name in names if name not in learned]
    if without:
        text = f"without a gradient: {', '.join(without)}"
        yield from textwrap.wrap(text, WIDTH)

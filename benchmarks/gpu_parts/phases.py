"""A training step, and how its time is shared out: each operation stands between two events.

The events are on the device's clock, so what an operation takes includes gaps in which the device waits for launches.
"""

import contextlib
import functools
from collections.abc import Iterator

import machine

from gpu_parts.bench import Bench, gradients, products_in
from minigpt import ops
from minigpt.models import costs
from minigpt.models.gpt2 import GPT2
from minigpt.nn.optim import AdamW
from minigpt.ops.cuda.cuda_graph import Recorded


def phases(bench: Bench) -> None:
    """A step in each precision, the fastest first."""
    for precision in reversed(bench.precisions):
        with products_in(precision):
            _phases(bench, precision)
        bench.free()


def _phases(bench: Bench, precision: str) -> None:
    config = bench.config()
    model = bench.model(config, precision)
    optimizer = AdamW(model.named_parameters())
    ids, targets = bench.texts(bench.batch, config)

    def step():
        gradients(model, ids, targets)
        optimizer.step(1e-4, 1.0)

    seconds = bench.seconds(step, least=0.1, rounds=5)
    bench.wait()
    host = machine.seconds(step)  # until the last launch is made; the device has hardly begun
    bench.wait()
    flops = costs.flops_per_token(GPT2, config)[1] * targets.size
    bench.note(
        f"phases: step, {precision}, {bench.batch} texts", seconds=seconds,
        **{"tokens/s": targets.size / seconds, "of peak": flops / seconds / max(bench.rates.values()),
           "host seconds": host},
    )  # fmt: skip
    for _ in range(3):  # the last one counts
        marks: list[tuple] = []
        with marked(bench, marks):
            began = bench.moment()
            step()
            ended = bench.moment()
        bench.wait()
    _share_out(bench, precision, marks, bench.between(began, ended))
    if bench.on_gpu and precision == bench.lowest:
        _recorded(bench, precision, model, ids, targets)


@contextlib.contextmanager
def marked(bench: Bench, marks: list[tuple]) -> Iterator[None]:
    """Inside, every call of an operation adds (name, moment before, moment after) to marks.

    An operation that another one calls belongs to that one, and is not counted twice.
    """
    pairs = [f"{op}_{way}" for op in ops.names for way in ("forward", "backward")]
    before = {name: getattr(ops, name) for name in (*pairs, *ops.functions)}
    inside = []

    def with_marks(name, function):
        @functools.wraps(function)
        def call(*args, **options):
            if inside:
                return function(*args, **options)
            inside.append(name)
            first = bench.moment()
            try:
                return function(*args, **options)
            finally:
                marks.append((name, first, bench.moment()))
                inside.pop()

        return call

    with machine.replaced({(ops, name): with_marks(name, function) for name, function in before.items()}):
        yield


def _share_out(bench: Bench, precision: str, marks: list[tuple], whole: float) -> None:
    """A row for each operation, the one that takes longest first, and one for what is left."""
    calls: dict[str, list[float]] = {}
    for name, first, last in marks:
        calls.setdefault(name, []).append(bench.between(first, last))
    rest = whole
    for name, times in sorted(calls.items(), key=lambda item: -sum(item[1])):
        seconds = sum(times)
        rest -= seconds
        bench.note(f"phases: {precision}, {name}", calls=len(times), seconds=seconds, share=seconds / whole)
    bench.note(f"phases: {precision}, the rest (sums of gradients, gaps)", seconds=rest, share=rest / whole)


def _recorded(bench: Bench, precision: str, model: GPT2, ids, targets) -> None:
    """Forward and backward as a CUDA graph, and launch by launch: the difference is what the launches cost."""

    def both_ways(ids, targets):
        loss, found = gradients(model, ids, targets)
        return loss, list(found.values())

    graph = Recorded(both_ways)
    name = f"phases: {precision}, forward and backward"
    seconds = bench.seconds(lambda: graph(ids, targets), least=0.1, rounds=5)
    bench.note(f"{name}, recorded", seconds=seconds)
    seconds = bench.seconds(lambda: both_ways(*graph.inputs), least=0.1, rounds=5)
    bench.note(f"{name}, launch by launch", seconds=seconds)

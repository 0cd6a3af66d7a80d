"""What was predicted twice before the first day on a GPU, beside what was measured, and which of the two was nearer.

All of it is about a training step of GPT-2 small in bfloat16 with 16 texts of 1,024 tokens. The first prediction counts
operations and bytes, for an H200. The second opinion is that of a reader who had compiled every kernel and counted
registers, reads of shared memory and blocks, for an H100. Both have the same multiprocessors, and an H200 has the
faster memory: what waits for memory is multiplied by (bytes a second of a copy on that card) / (the same, measured
here). "PyTorch / ours" is the time of PyTorch's step over ours: above 1, ours is faster.
"""

from collections.abc import Callable
from typing import NamedTuple

from gpu_parts.steps import COMPILED, CUDNN, FLASH, MULTIPLE_OF_64, OTHERS
from minigpt.models.gpt2 import GPT2

Rows = dict[str, dict]
Range = tuple[float, float]
FIRST_COPY = 4.3e12  # bytes a second that a copy reads and writes on an H200: 90 % of its data sheet
SECOND_COPY = 3.0e12  # the same of an H100
COPY = "bytes of a copy, read and written"  # the row of what it is here
STEP = "batch 16: step, bfloat16"
ATTENTION = "batch 16: attention, bfloat16"


class Prediction(NamedTuple):
    """measured: finds the number among the rows of gpu.json. waits: the share of the time that waits for memory."""

    what: str
    measured: Callable[[Rows], float | None]
    first: Range | None = None
    second: Range | None = None
    waits: float = 0.0


def cell(name: str, column: str = "seconds", times: float = 1e3) -> Callable[[Rows], float | None]:
    """One number of a row, in milliseconds if it is seconds."""

    def find(rows: Rows) -> float | None:
        value = rows.get(name, {}).get(column)
        return None if value is None else times * value

    return find


def phase(*operations: str) -> Callable[[Rows], float | None]:
    """Milliseconds of these operations in the part `phases`, forward and backward."""

    def find(rows: Rows) -> float | None:
        found = [row["seconds"] for name, row in rows.items()
                 if name.removeprefix("phases: bfloat16, ").startswith(operations)]  # fmt: skip
        return 1e3 * sum(found) if found else None

    return find


def over_ours(kernel: str, column: str) -> Callable[[Rows], float | None]:
    """PyTorch's time for attention by one of its kernels over ours."""

    def find(rows: Rows) -> float | None:
        theirs, ours = (rows.get(name, {}).get(column) for name in (f"{ATTENTION}, PyTorch {kernel}", ATTENTION))
        return theirs / ours if theirs and ours else None

    return find


def step_over_ours(way: str) -> Callable[[Rows], float | None]:
    """PyTorch's time for a step over ours."""
    return cell(f"{STEP}, PyTorch {way}", OTHERS, times=1)


LAYERS = 1e3 * GPT2.Config().n_layer  # milliseconds of all layers, from seconds of one
PREDICTIONS = (
    Prediction("a step, ms", cell(STEP), (32, 33), (34, 37), waits=0.15),
    Prediction("its products, the head and the loss, ms", phase("linear", "mlp"), (21.6, 21.6), (22.7, 25.2),
               waits=0.1),
    Prediction("its attention, ms", phase("self_attention"), (7, 8), (4.8, 5.6)),
    Prediction("its LayerNorms and residual sums, ms", phase("layernorm", "add"), (1.6, 1.6), (2.8, 2.8), waits=1),
    Prediction("clipping and Adam, ms", phase("adam", "clip"), (1.1, 1.3), (1.6, 1.6), waits=1),
    Prediction("embeddings and gaps, ms", phase("embedding", "the rest"), (0.8, 0.8), (1.0, 1.0)),
    Prediction("attention's kernels alone, 12 layers forward, ms", cell(ATTENTION, "forward seconds", LAYERS),
               (0.55, 0.55), (1.0, 1.2)),
    Prediction("attention's kernels alone, 12 layers backward, ms", cell(ATTENTION, "backward seconds", LAYERS),
               (2.29, 2.29), (3.7, 4.4)),
    Prediction("Python until a step is launched, ms", cell("phases: step, bfloat16, 16 texts", "host seconds"),
               second=(12, 20)),
    Prediction(f"PyTorch / ours, compiled, {MULTIPLE_OF_64} rows, FlashAttention-2",
               step_over_ours(f"compiled, {MULTIPLE_OF_64} rows, {FLASH}"), second=(0.92, 1.12)),
    Prediction(f"PyTorch / ours, compiled, {MULTIPLE_OF_64} rows, cuDNN's attention",
               step_over_ours(f"compiled, {MULTIPLE_OF_64} rows, {CUDNN}"), second=(0.88, 1.05)),
    Prediction("PyTorch / ours, compiled, 50257 rows", step_over_ours(COMPILED.name), second=(1.1, 1.35)),
    Prediction("PyTorch / ours, eager", step_over_ours("eager"), second=(1.4, 1.6)),
    Prediction("PyTorch / ours, FlashAttention-2 forward", over_ours(FLASH, "forward seconds"), second=(0.9, 1.1)),
    Prediction("PyTorch / ours, FlashAttention-2 backward", over_ours(FLASH, "backward seconds"), second=(0.75, 0.95)),
    Prediction("PyTorch / ours, cuDNN's attention forward", over_ours(CUDNN, "forward seconds"), second=(0.55, 0.75)),
    Prediction("PyTorch / ours, cuDNN's attention backward", over_ours(CUDNN, "backward seconds"), second=(0.55, 0.75)),
)  # fmt: skip


def here(predicted: Range | None, waits: float, copy_there: float, copy_here: float) -> Range | None:
    """A prediction for another card, as it would be for this one."""
    if predicted is None:
        return None
    times = 1 - waits + waits * copy_there / copy_here
    return predicted[0] * times, predicted[1] * times


def off(measured: float, predicted: Range) -> float:
    """How far a number is from a range; 0 inside."""
    return max(predicted[0] - measured, measured - predicted[1], 0.0)


def nearer(measured: float | None, first: Range | None, second: Range | None) -> str:
    """ "first", "second", or "both" where both are as near; "" where there are not two predictions and a number."""
    if measured is None or first is None or second is None:
        return ""
    how_far = off(measured, first), off(measured, second)
    if how_far[0] == how_far[1]:
        return "both"
    return "first" if how_far[0] < how_far[1] else "second"


def table(rows: Rows, device: str) -> str:
    """The whole table in Markdown. rows: those of gpu.json that were measured on this device."""
    copy = None if device.startswith("CPU") else rows.get(COPY, {}).get("per second")
    lines = [
        f"# Predicted and measured: {device}", "",
        "GPT-2 small, bfloat16, 16 texts of 1,024 tokens. " + (
            f"A copy here reads and writes {copy / 1e12:.2f} TB/s; what waits for memory is predicted for that." if copy
            else "Predicted for an H200 (first) and an H100 (second): no copy by a GPU was measured here."
        ), "",
        "| | measured | first prediction | second opinion | nearer |", "| --- | --- | --- | --- | --- |",
    ]  # fmt: skip
    for one in PREDICTIONS:
        first = here(one.first, one.waits, FIRST_COPY, copy or FIRST_COPY)
        second = here(one.second, one.waits, SECOND_COPY, copy or SECOND_COPY)
        measured = one.measured(rows)
        number = "" if measured is None else f"{measured:.2f}"
        cells = one.what, number, _in_words(first), _in_words(second), nearer(measured, first, second)
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def _in_words(predicted: Range | None) -> str:
    if predicted is None:
        return ""
    low, high = (f"{number:.2f}" for number in predicted)
    return low if low == high else f"{low} to {high}"

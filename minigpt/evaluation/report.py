"""What an evaluation found: numbers with their 95 % intervals, and how they are shown."""

import math
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from minigpt.evaluation.metrics import wilson


class Measure(NamedTuple):
    """A number, its 95 % interval, and the count of what it was taken over: 273 items, 1,024 tokens."""

    name: str
    value: float
    low: float
    high: float
    n: int
    of: str = "item"


class Report(NamedTuple):
    """The measures of a task; notes that belong to them; the texts that the model wrote, where it wrote any."""

    measures: list[Measure]
    notes: list[str]
    outputs: Sequence[str] = ()

    def __str__(self) -> str:
        """A table of the measures, and the notes below it."""
        lines = [_row("", "value", "95 % interval", "n")]
        for name, value, low, high, n, of in self.measures:
            interval = f"{shown(low)} to {shown(high)}"
            plural = "s" if n != 1 else ""
            lines.append(_row(name, shown(value), interval, f"{n:,} {of}{plural}"))
        return "\n".join(lines + self.notes)


def _row(name: str, value: str, interval: str, count: str) -> str:
    line = f"{name:<32}{value:>11}   {interval:<26}{count}"
    return line.rstrip()


def shown(x: float) -> str:
    """A number with as many digits as a reader needs."""
    if abs(x) < 10:
        return f"{x:.4f}"
    if abs(x) < 1e6:
        return f"{x:,.2f}"
    return f"{x:.3g}"


def accuracy_measure(name: str, credits: Sequence[float]) -> Measure:
    """The mean of credits (N,), each from 0 to 1, with Wilson's interval."""
    n = len(credits)
    right = sum(credits)
    low, high = wilson(right, n)
    return Measure(name, right / n, low, high, n)


def perplexity_measure(name: str, nats: Iterable[float], n: int, of: str = "item") -> Measure:
    """The perplexity, exp of the mean loss. nats: (mean, low, high) of the loss in nats for each of n units."""
    value, low, high = map(_exp, nats)
    return Measure(name, value, low, high, n, of)


def _exp(x: float) -> float:
    """exp(x), and infinity where the result is too large for a float."""
    return math.exp(x) if x < 700 else math.inf


def notes_on_cuts(cuts: Sequence[int]) -> list[str]:
    """One note if texts lost tokens, else none. cuts (N,): how many of the oldest tokens each text lost."""
    n = sum(cut > 0 for cut in cuts)
    if n == 0:
        return []
    return [f"{n:,} of {len(cuts):,} texts exceed the model's context: their oldest tokens were cut off"]

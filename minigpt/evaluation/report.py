"""What an evaluation found: numbers with their intervals, and how they are shown."""

import math
from collections.abc import Sequence
from typing import NamedTuple

from minigpt.evaluation.metrics import wilson


class Measure(NamedTuple):
    """A number, its 95 % interval, and of how many of what it was taken."""

    name: str
    value: float
    low: float
    high: float
    n: int
    of: str = "item"


class Report(NamedTuple):
    """What a task found; notes that belong to the numbers; the texts that the model wrote, where it wrote any."""

    measures: list[Measure]
    notes: list[str]
    outputs: Sequence[str] = ()

    def __str__(self) -> str:
        rows = [("", "value", "95 % interval", "n")]
        for name, *values, n, of in self.measures:
            forms = [".4f" if abs(x) < 10 else ",.2f" if abs(x) < 1e6 else ".3g" for x in values]
            value, low, high = map(format, values, forms)
            rows.append((name, value, f"{low} to {high}", f"{n:,} {of}{'s' * (n != 1)}"))
        return "\n".join([f"{a:<32}{b:>10}   {c:<26}{d}".rstrip() for a, b, c, d in rows] + self.notes)


def accuracy_measure(name: str, right: Sequence[float]) -> Measure:
    """The mean of credits from 0 to 1, with Wilson's interval."""
    return Measure(name, sum(right) / len(right), *wilson(sum(right), len(right)), len(right))


def exponentials(values: Sequence[float]) -> list[float]:
    """exp of each value; infinity where it has no float."""
    return [math.exp(x) if x < 700 else math.inf for x in values]


def notes_on_cuts(cuts: Sequence[int]) -> list[str]:
    """A note, if texts were longer than the model's context."""
    n = sum(cut > 0 for cut in cuts)
    return [f"{n:,} of {len(cuts):,} texts exceed the model's context: their oldest tokens were cut off"] if n else []

"""The form of a result as it is shown, and what the files that write results share: rows by seed, means, targets."""

from collections.abc import Callable
from typing import NamedTuple

from figures import Plot, Point


class Target(NamedTuple):
    """A number that was set before the measurement, for one column of one row."""

    row: str
    column: str
    value: float
    at_least: bool

    def met(self, measured: float) -> bool:
        """Is it reached?"""
        return measured >= self.value if self.at_least else measured <= self.value


class Result(NamedTuple):
    """How a result is shown; sentence and plots are made from its rows."""

    title: str
    sentence: Callable[[dict], str]
    plots: Callable[[dict], list[Plot]]
    targets: tuple[Target, ...] = ()


def base(name: str) -> str:
    """The name of a row without its seed."""
    parts = [part for part in name.split(", ") if not part.startswith("seed ")]
    return ", ".join(parts)


def by_seed(rows: dict, column: str) -> dict[str, list[float]]:
    """{name without seed: the values of a column, one for each seed}"""
    found: dict[str, list[float]] = {}
    for name, row in rows.items():
        if isinstance(row.get(column), int | float):
            found.setdefault(base(name), []).append(row[column])
    return found


def spread(values: list[float]) -> Point:
    """The mean, and the lowest and highest."""
    mean = sum(values) / len(values)
    if len(values) == 1:
        return Point(mean)
    return Point(mean, min(values), max(values))


def mean_curve(lists: list[list[float]]) -> list[float]:
    """The mean, place by place."""
    return [sum(values) / len(values) for values in zip(*lists, strict=True)]


def ratio_point(row: dict, target: float | None = None) -> Point:
    """The median of the ratios, with its range."""
    return Point(row["ratio"], row["from"], row["to"], target)


def verdict(targets: tuple[Target, ...], rows: dict) -> str:
    """How many targets are met."""
    met = sum(target.met(rows[target.row][target.column]) for target in targets)
    return f"{met} of {len(targets)} targets met."

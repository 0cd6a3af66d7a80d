"""What each recorded result says: its title, a sentence, its plots, and the targets that were set for it."""

from collections.abc import Callable
from typing import NamedTuple

import figures
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


SUBJECTS = {  # names of results, in the order of the index
    "Speed and memory": (
        "train_step", "one_thread", "two_threads", "effects", "run", "decode", "memory", "bpe", "gradcheck",
    ),
    "What models learn": (
        "pretraining", "transfer", "family", "long_range", "in_context", "names", "scaling", "masked", "warmup",
        "claim", "stories", "finetuning",
    ),
    "Is a run sound?": ("defaults", "bands", "kills"),
    "The GPU code": ("gpu", "host_cost", "kernels"),
}  # fmt: skip


def of(name: str) -> Result:
    """How the result of this name is shown; one that nothing is written about shows its first column of numbers."""
    import results_gpu
    import results_learning
    import results_runs
    import results_speed

    known = results_speed.RESULTS | results_learning.RESULTS | results_runs.RESULTS | results_gpu.RESULTS
    return known.get(name) or Result(name.replace("_", " "), lambda rows: f"{len(rows)} rows.", _first_column)


def _first_column(rows: dict) -> list[Plot]:
    for column in next(iter(rows.values())):
        points = {name: Point(row[column]) for name, row in rows.items() if isinstance(row.get(column), int | float)}
        if points:
            return [figures.rows(column, {column: points}, column)]
    return []


# --- tools for those that write results ------------------------------------------------------------------------------


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

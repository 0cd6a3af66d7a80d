"""From the first column of a suite to the last: what is there is measured and kept, and what is missing is told."""

import time
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from minigpt.errors import InputError
from minigpt.evaluation.report import Measure
from minigpt.jobs.suites.kept import Kept
from minigpt.jobs.suites.table import Column, Look, Number, Suite


class Found(NamedTuple):
    """What a job has found of a column."""

    measures: Sequence[Measure]
    notes: Sequence[str] = ()


Run = Callable[[Column, dict[str, str]], Found]  # (column, {option: path}) -> what the job has found


def run(suite: Suite, seen: Look, kept: Kept, size: str, job: Run) -> None:
    """Measure the columns that are there, but for those that are kept; print the table, and what is missing.

    size: of the model, as the papers call it. A column that cannot be measured stops no other one. Raises InputError,
    after the last one, with what was wrong.
    """
    print(f"{suite.name}: {suite.about}")
    print(f"{len(seen.there)} of {len(suite.columns)} columns are there; each is kept in {kept.path}, "
          "and the same command goes on")  # fmt: skip
    wrong = []
    for column in suite.columns:
        files = seen.there.get(column.name)
        if files is None:
            continue
        if column.name in kept.columns:
            print(f"\n{column.name}: kept")
            continue
        print(f"\n{column.name}:", flush=True)
        start = time.perf_counter()
        try:
            found = job(column, files)
        except InputError as error:
            wrong.append(f"{column.name}: {error}")
            continue
        seconds = round(time.perf_counter() - start, 1)
        kept.add(column.name, _entry(column, files, found, size, seconds))
    print(f"\n{kept}")
    if not size:
        print("this model has none of the papers' sizes: beside it stand the first numbers that they print")
    if seen.missing:
        print("\nnot there:")
    for column in seen.missing:
        print(f"{column.name}: {column.wanted}")
    if wrong:
        raise InputError(f"{len(wrong)} of {len(seen.there)} columns could not be measured: {'; '.join(wrong)}")


def _entry(column: Column, files: dict[str, str], found: Found, size: str, seconds: float) -> dict[str, Any]:
    """A finished column, as it is kept."""
    return {
        "files": files,
        "source": column.source,
        "seconds": seconds,
        "numbers": [_number(number, found.measures, size) for number in column.numbers],
        "measures": [measure._asdict() for measure in found.measures],
        "notes": list(found.notes),
    }


def _number(number: Number, measures: Sequence[Measure], size: str) -> dict[str, Any]:
    """A number of the paper beside ours, in the paper's unit; n is 0 where the job did not measure it."""
    printed_of, printed = number.printed(size) or (None, None)
    row = {"name": number.name, "measure": number.measure, "paper": printed, "size": printed_of}
    row |= {"value": None, "low": None, "high": None, "n": 0}
    for measure in measures:
        if measure.name == number.measure:
            ours = {name: number.times * getattr(measure, name) for name in ("value", "low", "high")}
            row |= ours | {"n": measure.n}
    return row

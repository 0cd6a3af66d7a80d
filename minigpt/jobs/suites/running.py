"""From the first column of a suite to the last: what is there is measured and kept, and what is missing is told.

`minigpt eval MODEL --suite NAME` measures columns without training, `minigpt finetune` those by the paper's recipe.
"""

import time
from collections.abc import Callable, Collection, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from minigpt import models
from minigpt.errors import InputError
from minigpt.evaluation.report import Measure
from minigpt.files.disk import read_json
from minigpt.jobs.evaluate import EvaluateOptions, check_json_folder, evaluate, open_model
from minigpt.jobs.finetune.job import finetune
from minigpt.jobs.finetune.kept import RESULTS
from minigpt.jobs.finetune.settings import FinetuneOptions
from minigpt.jobs.interrupt import Stopped
from minigpt.jobs.option_fields import free, told
from minigpt.jobs.suites import table
from minigpt.jobs.suites.kept import Kept
from minigpt.jobs.suites.table import Column, Files, Look, Number, Suite

FILE = "suite.json"
OWN = ("suite", "data", "task", "columns")  # options that the suite sets for each column


class Found(NamedTuple):
    """What a job has found of a column."""

    measures: Sequence[Measure]
    notes: Sequence[str] = ()


Run = Callable[[Column, Files], Found]  # (column, {option: path}) -> what the job has found


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


def _entry(column: Column, files: Files, found: Found, size: str, seconds: float) -> dict[str, Any]:
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


def evaluate_suite(options: EvaluateOptions) -> Kept:
    """Measure the columns of a suite whose files lie in `options.data`; returns what is kept of them.

    The model is opened once, and each column is a run of `evaluate`. Ctrl-C loses only the column at work: the same
    options go on. Raises InputError as `evaluate` does, and where none of the files is there.
    """
    options.check()
    suite = table.suite("eval", options.suite)
    seen = table.look(suite, Path(options.data))
    name = Path(options.folder).name
    path = Path(options.json_file or f"runs/{name}-{suite.name}.json")
    if options.json_file is not None:
        check_json_folder(path)
    opened = open_model(options)
    model, _ = opened
    about = {"suite": suite.name, "model": options.folder, "weights": model.checksum(), "limit": options.limit}
    kept = Kept(path, about)

    def job(column: Column, files: Files) -> Found:
        shared = {"folder": options.folder, "device": options.device, "limit": options.limit}
        report = evaluate(EvaluateOptions(**shared, **column.options, **files), opened)
        return Found(report.measures, report.notes)

    run(suite, seen, kept, table.size_of(model.config), job)
    return kept


def _measure(name: str, scores: Sequence[float], result: dict[str, Any]) -> Measure:
    """The mean of the seeds on one test file, and the interval of the last."""
    low, high = result["interval"]
    return Measure(name, float(np.mean(scores)), low, high, result["examples"])


def finetune_suite(options: FinetuneOptions, named: Collection[str] = ()) -> int:
    """Fine-tune the model for each column of a suite whose files lie in `options.data`.

    Each is a run of `finetune` in a folder below `options.out`, beside the file of finished columns. Ctrl-C stops it,
    and the same options go on. Returns the number of the signal that stopped it, or 0. named: as for `finetune`. Raises
    InputError as `finetune` does, and where none of the files is there.
    """
    options.check()
    suite = table.suite("finetune", options.suite)
    seen = table.look(suite, Path(options.data))
    out = Path(options.out or f"runs/{Path(options.model).name}-{suite.name}")
    model, _ = models.open_both(options.model)
    size = table.size_of(model.config)
    about = {"suite": suite.name, "model": options.model, "weights": model.checksum()}
    del model  # each column opens its own
    shared = {name: value for name, value in told(options).items() if name not in {*free(options), *OWN}}
    kept = Kept(out / FILE, about | shared)
    plain = replace(options, suite=None, data=None, resume=False)

    def job(column: Column, files: Files) -> Found:
        folder = out / column.name
        outcome = finetune(replace(plain, out=str(folder), **column.options, **files), named)
        if outcome.stopped_by:
            raise Stopped(outcome.stopped_by)
        result = read_json(folder / RESULTS)
        measures = [_measure(result["metric"], outcome.scores, result)]
        for other in result.get("others", []):
            measures.append(_measure(f"{other['metric']} of {Path(other['file']).name}", other["scores"], other))
        several = f"the mean of {len(outcome.scores)} seeds, and the interval of the last"
        return Found(measures, [several] if len(outcome.scores) > 1 else [])

    try:
        run(suite, seen, kept, size, job)
    except Stopped as stopped:
        return stopped.args[0]
    return 0

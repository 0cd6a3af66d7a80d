"""Evaluate: a task, a model and a file of items give a report, which is printed and, if wanted, written as JSON."""

import json
import os
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from minigpt import models
from minigpt.device.gpu import choose_device
from minigpt.errors import InputError
from minigpt.evaluation import task_files, tasks_as_text
from minigpt.evaluation.perplexity import perplexity
from minigpt.evaluation.report import Report
from minigpt.files.disk import read_text, write_text


class Evaluation(NamedTuple):
    """A task of `minigpt eval`."""

    run: Callable[..., Report]  # run(model, tokenizer, items, **options)
    read: Callable[[str | Path], Any]  # read(file) gives the items
    options: frozenset[str]  # what else may be chosen


def _writing(name: str) -> Evaluation:
    run = partial(tasks_as_text.write, name)
    return Evaluation(run, task_files.read_examples, frozenset({"limit", "shots", "seed"}))


TASKS = {
    "perplexity": Evaluation(perplexity, read_text, frozenset({"context", "stride", "detokenize"})),
    "lambada": Evaluation(tasks_as_text.lambada, task_files.read_passages, frozenset({"limit", "detokenize"})),
    "winograd": Evaluation(tasks_as_text.winograd, task_files.read_winograd, frozenset({"limit"})),
    "choice": Evaluation(tasks_as_text.choose, task_files.read_choices, frozenset({"limit"})),
    "sentiment": Evaluation(tasks_as_text.sentiment, task_files.read_sentiments, frozenset({"limit", "shots"})),
    "summarise": _writing("summarise"),
    "translate": _writing("translate"),
    "answer": _writing("answer"),
}


def evaluate(
    folder: str | Path,
    task: str,
    file: str | Path,
    *,
    json_file: str | Path | None = None,
    device: str | None = None,
    limit: int | None = None,
    **options,
) -> Report:
    """Do one of TASKS with the model in a folder and the items of a file; print the report, and return it.

    json_file: where the report is written, too. limit: only the first so many items. options: those of the task.

    Raises InputError for an unknown task, for an option that the task does not have, for a file that is not in the
    form of the task, and for a json_file that exists already or cannot be written. All this is known before the work
    begins.
    """
    _check_options(task, limit, options)
    if json_file is not None:
        _check_json_file(Path(json_file))
    evaluation = TASKS[task]
    items = evaluation.read(file)
    if limit is not None:
        items = items[:limit]
    model, tokenizer = models.open_both(folder)
    model.to(choose_device(device))
    report = evaluation.run(model, tokenizer, items, **options)
    print(f"{task}: {file}\n{report}")
    if json_file is not None:
        given = {"model": str(folder), "task": task, "file": str(file), "limit": limit, "options": options}
        _write_json(json_file, given, report)
    return report


def _check_options(task: str, limit: int | None, options: dict[str, Any]) -> None:
    """Raises InputError for an unknown task or option, and for a limit below 1."""
    if task not in TASKS:
        raise InputError(f"unknown task {task!r}: choose {', '.join(TASKS)}")
    known = TASKS[task].options
    given = set(options)
    if limit is not None:
        given.add("limit")
    wrong = sorted(given - known)
    if wrong:
        raise InputError(f"--{wrong[0]} is no option of {task}: it has --{', --'.join(sorted(known))}")
    if limit is not None and limit < 1:
        raise InputError(f"--limit {limit}: give 1 or more")


def _check_json_file(path: Path) -> None:
    """Raises InputError for a file that exists already, and for a folder that cannot be written to."""
    if path.exists():
        raise InputError(f"--json {path} is there already: give another name")
    if not os.access(f"{path.parent}/", os.W_OK):
        raise InputError(f"--json {path}: there is no folder {path.parent} to write to")


def _write_json(path: str | Path, given: dict[str, Any], report: Report) -> None:
    """What was given, and what was found. JSON has no infinity: null stands in its place."""
    found = {
        "measures": [measure._asdict() for measure in report.measures],
        "notes": report.notes,
        "outputs": report.outputs,
    }
    text = json.dumps(given | found)
    finite = json.loads(text, parse_constant=lambda name: None)
    write_text(path, json.dumps(finite, indent=2, ensure_ascii=False) + "\n")

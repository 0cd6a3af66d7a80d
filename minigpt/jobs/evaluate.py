"""Evaluate a model on a task and a file: print the report, and write it as JSON."""

import json
import os
from functools import partial
from pathlib import Path

from minigpt import models
from minigpt.device.gpu import choose_device
from minigpt.errors import InputError
from minigpt.evaluation import task_files
from minigpt.evaluation.perplexity import perplexity
from minigpt.evaluation.report import Report
from minigpt.evaluation.tasks_as_text import WRITTEN, choose, lambada, sentiment, winograd, write
from minigpt.files.disk import read_text, write_text

TASKS = {  # how it is done, how its file is read, and its options
    "perplexity": (perplexity, read_text, {"context", "stride", "detokenize"}),
    "lambada": (lambada, task_files.read_passages, {"limit", "detokenize"}),
    "winograd": (winograd, task_files.read_winograd, {"limit"}),
    "choice": (choose, task_files.read_choices, {"limit"}),
    "sentiment": (sentiment, task_files.read_sentiments, {"limit", "shots"}),
    **{name: (partial(write, name), task_files.read_pairs, {"limit", "shots", "seed"}) for name in WRITTEN},
}

def evaluate(
    folder: str | Path, task: str, file: str | Path, *, json_file: str | Path | None = None, device: str | None = None,
    limit: int | None = None, **options,
) -> Report:
    """Do one of TASKS with the model in a folder and the items of a file; print the report, write it as JSON if asked.

    options: those of the task's function; limit: only the first so many items. Raises InputError for an option that
    the task does not have, for a file that is not of its form, and for a `json_file` that is
    there already or could not be written.
    """
    if task not in TASKS:
        raise InputError(f"unknown task {task!r}: choose {', '.join(TASKS)}")
    function, read, known = TASKS[task]
    if wrong := sorted(set(options | ({} if limit is None else {"limit": limit})) - known):
        raise InputError(f"--{wrong[0]} is no option of {task}: it has --{', --'.join(sorted(known))}")
    if limit is not None and limit < 1:
        raise InputError(f"--limit {limit}: give 1 or more")
    if json_file is not None and Path(json_file).exists():
        raise InputError(f"--json {json_file} is there already: give another name")
    if json_file is not None and not os.access(f"{Path(json_file).parent}/", os.W_OK):
        raise InputError(f"--json {json_file}: there is no folder {Path(json_file).parent} to write to")
    items = read(file)
    model, tokenizer = models.open_both(folder)
    model.to(choose_device(device))
    report = function(model, tokenizer, items if limit is None else items[:limit], **options)
    print(f"{task}: {file}\n{report}")
    if json_file is not None:
        given = {"model": str(folder), "task": task, "file": str(file), "limit": limit, "options": options}
        found = {"measures": [one._asdict() for one in report.measures], "notes": report.notes}
        text = json.dumps(given | found | {"outputs": report.outputs})
        finite = json.loads(text, parse_constant=lambda infinite: None)  # JSON has no infinity
        write_text(json_file, json.dumps(finite, indent=2, ensure_ascii=False) + "\n")
    return report

"""Answer examples with a fine-tuned model."""

import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from minigpt.data import labelled_files
from minigpt.data.examples import Task
from minigpt.errors import InputError
from minigpt.files import disk
from minigpt.jobs.finetune import answer, encode, open_classifier, parse_columns
from minigpt.jobs.option_fields import OnDevice, argument, option
from minigpt.models.classifier import expected_score


@dataclass(kw_only=True)
class PredictOptions(OnDevice):
    """What `minigpt predict` can be told."""

    folder: str = argument("what minigpt finetune wrote", metavar="MODEL")
    file: str = argument("examples; their answers are not needed", metavar="FILE")
    layout: str | None = option(None, "how the file is laid out, as for finetune", metavar="KIND", flag="--task")
    columns: dict[str, str] | None = option(None, "as for finetune", metavar="ROLE=NAME,...", parse=parse_columns)
    out: str | None = option(None, "write the answers here instead", metavar="FILE")


def _warn(text: str) -> None:
    print(text, file=sys.stderr)


def predict(
    options: PredictOptions, write: Callable[[str], object] = print, tell: Callable[[str], object] = _warn
) -> np.ndarray:
    """Answer the examples of a file, labelled or not; returns and writes the answers, a line for each.

    A line is the answer and its probability (a score: alone), separated by a tab. `options.layout`: how the file is
    laid out, if not by the columns of the task's kind. tell: is called with what was cut. Raises InputError where
    `options.out` is there already, and for a file that is not of the task's kind.
    """
    file, layout, out = options.file, options.layout, options.out
    if out is not None and Path(out).exists():
        raise InputError(f"--out {out} is there already: give another name")
    model, text = open_classifier(options.folder, options.device)
    task = model.task
    found, examples = labelled_files.read(file, layout or task.kind, columns=options.columns, labelled=False)
    if found.kind != task.kind:
        raise InputError(f"--task {layout} lays out a {found.kind}, and {options.folder} was taught a {task.kind}")
    data = encode(examples, task, text, model.body.config.n_positions, str(file))
    if data.cut:
        tell(f"{file}: {data.cut:,} of {len(examples):,} examples were too long: they lost their beginnings")
    probabilities = answer(model, data.encoded)
    if task.scored:
        answers = expected_score(probabilities)
        lines = [f"{score:.4f}" for score in answers]
    else:
        answers = probabilities.argmax(axis=1)
        lines = _named(task, answers, probabilities)
    if out is None:
        write("\n".join(lines))
    else:
        disk.write_text(out, "\n".join(lines) + "\n")
    return answers


def _named(task: Task, answers: np.ndarray, probabilities: np.ndarray) -> list[str]:
    """A line for each answer: its label, or the number of its choice from 1, and its probability."""
    lines = []
    for i, row in zip(answers, probabilities, strict=True):
        name = task.labels[i] if task.labels else str(i + 1)
        lines.append(f"{name}\t{row.max():.4f}")
    return lines

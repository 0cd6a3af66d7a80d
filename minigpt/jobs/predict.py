"""Answer examples with a fine-tuned model."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from minigpt.data import labelled_files
from minigpt.data.examples import TAGGING, Example, Task
from minigpt.data.units import SPACE
from minigpt.errors import InputError
from minigpt.files import disk, published
from minigpt.jobs.finetune import Data, answer, encode, open_classifier, parse_columns
from minigpt.jobs.finetune.examples import UNKNOWN, about_unknown, unknown_share
from minigpt.jobs.finetune.tuning import Tagged, answer_units
from minigpt.jobs.option_fields import OnDevice, argument, option
from minigpt.models import costs
from minigpt.models.task_model import FileLayout, TaskModel, expected_score
from minigpt.tokenizer import Tokenizer


@dataclass(kw_only=True)
class PredictOptions(OnDevice):
    """What `minigpt predict` can be told."""

    folder: str = argument("what minigpt finetune wrote, or a published classifier", metavar="MODEL")
    file: str = argument("examples; their answers are not needed", metavar="FILE")
    layout: str | None = option(
        None, "how the file is laid out (default: as the file of fine-tuning was)", metavar="KIND", flag="--task"
    )
    columns: dict[str, str] | None = option(
        None, "as for finetune (default: as they were there)", metavar="ROLE=NAME,...", parse=parse_columns
    )
    out: str | None = option(None, "write the answers here instead", metavar="FILE")


def predict(
    options: PredictOptions, write: Callable[[str], object] = print, tell: Callable[[str], object] = published.tell
) -> Any:
    """Answer the examples of a file, labelled or not; returns and writes the answers, a line for each.

    A line is the answer and its probability (a score: alone), separated by a tab; of a tagging a unit and its label,
    with an empty line behind each sentence, and the answers are lists of names. `options.layout`, `options.columns`:
    how the file is laid out, if not as the files that the model learned from. tell: is called with how the file is
    read, what was cut, and how much the vocabulary does not know. Raises InputError where `options.out` is there
    already, and for a file that is not of the task's kind.
    """
    file, out = options.file, options.out
    if out is not None and Path(out).exists():
        raise InputError(f"--out {out} is there already: give another name")
    model, text = open_classifier(options.folder, options.device)
    task = model.task
    layout = _layout(options, model, tell)
    found, examples = labelled_files.read(file, layout.task, columns=layout.columns, labelled=False, say=tell)
    if found.kind not in model.kinds:
        raise InputError(f"--task {layout.task} lays out a {found.kind}, and {options.folder} was taught a {task.kind}")
    model.task = task = task._replace(kind=found.kind)
    room = model.body.config.n_positions
    costs.fit_threads(model.body, room)
    data = encode(examples, task, text, room, str(file), model.transformation(task))
    _tell_losses(data, text, options, tell)
    if task.kind == TAGGING:
        tagged = answer_units(model, data)
        lines = [line for example, one in zip(examples, tagged, strict=True) for line in _tagged(example, one)]
        return _written(lines, options.out, write, [one.names for one in tagged])
    probabilities = answer(model, data.encoded)
    if task.scored:
        answers = expected_score(probabilities)
        lines = [f"{score:.4f}" for score in answers]
    else:
        answers = probabilities.argmax(axis=1)
        lines = _named(task, answers, probabilities)
    return _written(lines, out, write, answers)


def _written(lines: list[str], out: str | None, write: Callable[[str], object], answers: Any) -> Any:
    """Write the lines, and return the answers."""
    if out is None:
        write("\n".join(lines))
    else:
        disk.write_text(out, "\n".join(lines) + "\n")
    return answers


def _tagged(example: Example, tagged: Tagged) -> list[str]:
    """A line for each unit of a sentence, its text and its label, and an empty one behind them."""
    units = [unit for unit in example.texts if unit != SPACE]
    return [*(f"{unit}\t{name}" for unit, name in zip(units, tagged.names, strict=True)), ""]


def _layout(options: PredictOptions, model: TaskModel, tell: Callable[[str], object]) -> FileLayout:
    """How the file is laid out: as the options say, or else as the files of fine-tuning were, which is then told.

    A layout that is given has its own columns; columns that are given take the place of all those of fine-tuning.
    """
    usual = FileLayout(model.task.kind, {})
    learned = model.files or usual
    if options.layout is not None:
        return FileLayout(options.layout, options.columns or {})
    if options.columns is not None:
        return FileLayout(learned.task, options.columns)
    if learned != usual:
        pairs = ",".join(f"{role}={column}" for role, column in learned.columns.items())
        columns = f" --columns {pairs}" if pairs else ""
        tell(f"{options.file} is read as the examples of fine-tuning were: --task {learned.task}{columns}")
    return learned


def _tell_losses(data: Data, text: Tokenizer, options: PredictOptions, tell: Callable[[str], object]) -> None:
    """Tell what the model does not see of the texts."""
    n = len(data.examples)
    if data.cut:
        tell(f"{options.file}: {data.cut:,} of {n:,} examples were too long: they lost their beginnings")
    share = unknown_share(data, text)
    if share >= UNKNOWN:
        tell(f"{options.file}: {about_unknown(share, options.folder)}")


def _named(task: Task, answers: np.ndarray, probabilities: np.ndarray) -> list[str]:
    """A line for each answer: its label, or the number of its choice from 1, and its probability."""
    lines = []
    for i, row in zip(answers, probabilities, strict=True):
        name = task.labels[i] if task.labels else str(i + 1)
        lines.append(f"{name}\t{row.max():.4f}")
    return lines

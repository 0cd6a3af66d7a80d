"""The labelled examples of each split: read from files or made by the story world, and turned into tokens."""

from collections import Counter
from pathlib import Path
from typing import NamedTuple

import numpy as np

from minigpt.data import input_transformations, labelled_files, stories
from minigpt.data.examples import KINDS, TAGGING, Example, Task
from minigpt.data.input_transformations import EncodedExamples
from minigpt.data.stories import tasks
from minigpt.errors import InputError
from minigpt.jobs.finetune.settings import FinetuneOptions
from minigpt.tokenizer import Tokenizer

UNKNOWN = 0.05  # from this share of unknown tokens on a warning is given


class Data(NamedTuple):
    """The examples of one split, and the same as sequences of tokens."""

    examples: list[Example]
    encoded: EncodedExamples

    @property
    def labels(self) -> list:
        """The answers."""
        return [example.label for example in self.examples]

    @property
    def cut(self) -> int:
        """How many examples were too long for the context."""
        return sum(any(one.cut for one in example) for example in self.encoded)

    @property
    def lengths(self) -> list[int]:
        """The tokens of the longest sequence of each example."""
        return [max(len(one.ids) for one in example) for example in self.encoded]


def is_stories(source: str) -> bool:
    """Do the examples come from the story world, and from no file?"""
    return source == "stories" or source.startswith("stories:")


def load(
    name: str, source: str, split: str, columns: dict[str, str] | None, known: Task | None = None
) -> tuple[Task, list[Example]]:
    """(the task, its examples) of a file, or of the story world: "stories:N", "stories:N:V" (see `stories.tasks`).

    known: the task as the training examples defined it, which must be that of the others too. Raises InputError.
    """
    if is_stories(source):
        if columns:
            raise InputError(f"--columns: {source} is no file and has no columns: leave it out")
        task, examples = _from_stories(name, source, split)
    else:
        task, examples = _from_file(name, source, columns, known)
    if known and task != known:
        raise InputError(f"{source} has {_answers(task)}, and the training examples have {_answers(known)}")
    return task, examples


def _from_stories(name: str, source: str, split: str) -> tuple[Task, list[Example]]:
    _, *numbers = source.split(":")
    if name not in tasks.TASKS:
        raise InputError(f"the story world has no task {name!r}: choose {', '.join(tasks.TASKS)}")
    if len(numbers) > 2 or not all(number.isdecimal() for number in numbers):
        raise InputError(f"{source}: give stories: and a number of examples, such as stories:2000")
    n = int(numbers[0]) if numbers else 2000
    variety = int(numbers[1]) if len(numbers) == 2 else stories.VARIETY
    return tasks.TASKS[name], tasks.examples(name, n, split, variety=variety)


def _from_file(
    name: str, source: str, columns: dict[str, str] | None, known: Task | None
) -> tuple[Task, list[Example]]:
    own = _story_task(name)
    labels = (known or own or Task("")).labels or None
    task, examples = labelled_files.read(source, layout_of(name), columns=columns, labels=labels)
    return own or task, examples


def _story_task(name: str) -> Task | None:
    """The task of the story world with this name: a file of one has the columns of its kind."""
    return None if name in KINDS else tasks.TASKS.get(name)


def layout_of(name: str) -> str:
    """How a file of this task is laid out: a name that `labelled_files.read` knows."""
    own = _story_task(name)
    return own.kind if own else name


def _answers(task: Task) -> str:
    """What answers a task has, in words."""
    if task.labels:
        return f"the labels {', '.join(task.labels)}"
    return "scores" if task.scored else "choices"


def load_splits(options: FinetuneOptions) -> tuple[Task, dict[str, list[Example]]]:
    """The task, and the examples to learn from ("train"), to choose by ("valid"), and to be judged on ("test",
    and "test 2" and so on, where there are several files).

    Raises InputError for what cannot be read, and for too few examples.
    """
    task, examples = load(options.task, options.train, "train", options.columns)
    examples = examples[: options.limit]
    splits = {"train": examples}
    valid = options.valid
    if valid is None and is_stories(options.train):
        valid = options.train
    for split, source in {"valid": valid, **options.tests}.items():
        if source:
            _, found = load(options.task, source, split.split(" ")[0], options.columns, task)
            splits[split] = found[: options.limit]
    if "valid" not in splits:
        splits |= _hold_out(examples, task, options.train)
    return task, splits


def _hold_out(examples: list[Example], task: Task, source: str) -> dict[str, list[Example]]:
    """Nine tenths for training and one for validation, drawn at random, as in OpenAI's code. Raises InputError."""
    order = np.random.default_rng(0).permutation(len(examples))
    n_train = -(-len(examples) * 9 // 10)
    train = [examples[i] for i in order[:n_train]]
    valid = [examples[i] for i in order[n_train:]]
    if not valid:
        raise InputError(f"{source} has {len(examples)} examples, too few to keep a tenth apart: give --valid")
    if task.labels and task.kind != TAGGING and len({example.label for example in train}) < 2:
        raise InputError(f"{source}: without the tenth that is kept apart only one label is left: give --valid")
    return {"train": train, "valid": valid}


def repeated(task: Task, examples: list[Example], others: list[Example]) -> int:
    """How many of the examples have the texts of one of the others, whatever their labels are."""
    mine = Counter(_texts(task, example) for example in examples)  # the fewer ones, in most cases
    there = {texts for texts in (_texts(task, example) for example in others) if texts in mine}
    return sum(mine[texts] for texts in there)


def _texts(task: Task, example: Example) -> tuple:
    """The texts of an example; those of a similarity in one sequence, because the model reads them in both."""
    texts = sorted(example.texts) if task.kind == "similarity" else example.texts
    return tuple(texts), example.choices


def encode(
    examples: list[Example], task: Task, text: Tokenizer, room: int, source: str = "", transformation: str | None = None
) -> Data:
    """The examples together with their token sequences. Raises InputError for what cannot be a sequence.

    source: where they come from, in words, for the error. transformation: how they become sequences, a name of
    `input_transformations.TRANSFORMATIONS`; None: as a head reads this kind of task.
    """
    if not examples:
        raise InputError("there are no examples: give a file with some")
    try:
        encoded = input_transformations.encode_all(examples, transformation or task.kind, text, room)
    except InputError as error:
        raise InputError(f"{source}{source and ', '}{error}") from error
    return Data(examples, encoded)


def unknown_share(data: Data, text: Tokenizer) -> float:
    """Of the tokens of all texts, the share that the vocabulary does not know, from 0 to 1."""
    unknown = 0
    total = 0
    for example in data.encoded:
        for one in example:
            unknown += text.count_unknown(one.ids)
            total += len(one.ids) - one.n_special
    return unknown / total


def about_unknown(share: float, model: str | Path) -> str:
    """A warning that this share of the tokens is unknown, with what can be done."""
    what = f"{share:.0%} of the tokens are unknown to the tokenizer of {model}, which cannot tell them apart"
    advice = (
        "take a model that was trained on such texts (minigpt train --data FILE), or one that knows every text: gpt2"
    )
    return f"{what}: {advice}"

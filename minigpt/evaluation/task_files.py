"""The items of the tasks of `minigpt eval`, from files of any layout that holds such items.

One rule for all: an item that is not in the form of its file means that the file is damaged, or is another file. It is
refused with its line: behind it nothing may be what it seems. An item that is in form, but that the task cannot put to
the model, says nothing against the others: the task leaves it out, and a note counts it. Published files have such
items: a Winograd schema with two gaps, a text that is longer than the context (see `tasks_as_text`).
"""

from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

from minigpt.data import labelled_files
from minigpt.data.examples import KINDS, Example
from minigpt.data.published.layout import Written
from minigpt.data.published.layouts import LAYOUTS
from minigpt.data.published.questions import PAIR_FORM
from minigpt.data.published.recognition import recognise, unknown_layout
from minigpt.data.published.texts import read_translations
from minigpt.errors import InputError
from minigpt.evaluation import prompts
from minigpt.evaluation.tasks_as_text import SENTIMENTS, Choice


class Items(NamedTuple):
    """The items of a file, one after another, and the name of its layout; "" where its columns are called as usual."""

    items: Iterator[Any]
    layout: str


def layout_of(path: Path, kinds: Sequence[str], wanted: str | None = None) -> str:
    """The name of the layout of a file, among those of these kinds; "" for a table with the usual columns.

    wanted: the layout, where the caller knows it. Raises InputError where none is known.
    """
    if wanted is not None:
        if wanted not in LAYOUTS:
            raise InputError(f"unknown layout {wanted!r}: choose {', '.join(LAYOUTS)}")
        if LAYOUTS[wanted].kind not in kinds:
            known = ", ".join(name for name in LAYOUTS if LAYOUTS[name].kind in kinds)
            raise InputError(f"--layout {wanted} holds nothing for this task: it reads {known}")
        return wanted
    name = recognise(path, kinds)
    if name is not None:
        return name
    if any(kind in KINDS and labelled_files.has_usual_columns(path, kind) for kind in kinds):
        return ""
    raise unknown_layout(path, kinds)


def read(path: Path, kinds: Sequence[str], layout: str | None = None, limit: int | None = None) -> Items:
    """The items of a file, as its layout gives them, or the first of them, so many as `limit` says.

    Raises InputError, for a bad item when it is reached.
    """
    name = layout_of(path, kinds, layout)
    read_layout = LAYOUTS[name].read if name else None
    if read_layout is not None and LAYOUTS[name].kind != "classification":
        return Items(islice(read_layout(path, True), limit), name)
    labels = SENTIMENTS if "classification" in kinds else None
    _, examples = labelled_files.read(path, name or kinds[0], labels=labels, limit=limit)
    return Items(iter(examples), name)


def read_passages(path: Path, layout: str | None = None, limit: int | None = None) -> Items:
    """The texts of `lambada`. Raises InputError as `read`."""
    return read(path, ("passages",), layout, limit)


def read_pronouns(path: Path, layout: str | None = None, limit: int | None = None) -> Items:
    """The records of `winograd`. Raises InputError as `read`."""
    items, name = read(path, ("pronouns",), layout, limit)
    return Items(map(_choice, items), name)


def read_choices(path: Path, layout: str | None = None, limit: int | None = None) -> Items:
    """The records of `choose`. Raises InputError as `read`."""
    items, name = read(path, ("choice",), layout, limit)
    return Items(map(_choice, items), name)


def read_sentiments(path: Path, layout: str | None = None, limit: int | None = None) -> Items:
    """The records of `sentiment`: texts that are labelled "negative" or "positive". Raises InputError as `read`."""
    items, name = read(path, ("classification", "written"), layout, limit)
    return Items((_opinion(path, item) for item in items), name)


def read_questions(path: Path, layout: str | None = None, limit: int | None = None) -> Items:
    """The records of `write` for answers. Raises InputError as `read`."""
    return read(path, ("question", "written"), layout, limit)


def read_states(path: Path, layout: str | None = None, limit: int | None = None) -> Items:
    """The records of `write` for states of conversations. Raises InputError as `read`."""
    return read(path, ("state",), layout, limit)


def read_articles(path: Path, layout: str | None = None, limit: int | None = None) -> Items:
    """The records of `write` for summaries. Raises InputError as `read`."""
    return read(path, ("summary", "written"), layout, limit)


def read_sentences(
    path: Path, layout: str | None = None, limit: int | None = None, answers: Path | None = None
) -> Items:
    """The records of `write` for translations; answers: the file with the translations, sentence by sentence.

    Raises InputError as `read`, and for two files that do not belong together.
    """
    if answers is not None:
        return Items(islice(read_translations(path, answers), limit), "wmt")
    if layout is None and recognise(path, ("written",)) is None:
        raise InputError(f"{path}: its translations are missing: give --answers FILE, or one file of {PAIR_FORM}")
    return read(path, ("written",), layout, limit)


def _choice(example: Example) -> Choice:
    return " ".join(example.texts), example.choices, example.label


def _opinion(path: Path, item: Example | Written) -> prompts.Example:
    """(the text, "negative" or "positive")"""
    if isinstance(item, Example):
        return item.texts[0], SENTIMENTS[item.label]
    (word,) = item.answers
    if word not in SENTIMENTS:
        raise InputError(f'{path}: expected {{"input": text, "output": "positive" or "negative"}}, got {word!r}')
    return item.given, word

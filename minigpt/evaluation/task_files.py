"""The files of the tasks: JSON, one item a line, or Winograd schemas, five lines each. Every item is checked.

One rule for all: an item that is not in the form of its file means that the file is damaged, or is another file. It is
refused with its line: behind it nothing may be what it seems. An item that is in form, but that the task cannot put to
the model, says nothing against the others: the task leaves it out, and a note counts it. Published files have such
items: a Winograd schema with two gaps, a text that is longer than the context (see `tasks_as_text`).
"""

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from minigpt.errors import InputError
from minigpt.evaluation.prompts import Example
from minigpt.evaluation.tasks_as_text import LAST_WORD, SENTIMENTS, Choice
from minigpt.files.disk import read_text


def read_passages(path: str | Path) -> list[str]:
    """The texts of `lambada`: lines {"text": two words or more}. Raises InputError with the number of a bad line."""
    records = _read_json_lines(path, '{"text": two words or more}', ["text"], LAST_WORD.search)
    return [text for (text,) in records]


def read_choices(path: str | Path) -> list[Choice]:
    """The records of `choose`: lines {"context": ..., "choices": [...], "label": ...}, the label counted from 0.

    Raises InputError with the number of a bad line.
    """
    form = '{"context": text, "choices": [text, text, ...], "label": 0, 1, ...}'
    return _read_json_lines(path, form, ["context", "choices", "label"], _is_choice)


def read_sentiments(path: str | Path) -> list[Example]:
    """The records of `sentiment`: lines {"input": text, "output": one of SENTIMENTS}.

    Raises InputError with the number of a bad line.
    """
    form = '{"input": text, "output": "positive" or "negative"}'
    return _read_json_lines(path, form, ["input", "output"], _is_sentiment)


def read_examples(path: str | Path) -> list[Example]:
    """The records of `write`: lines {"input": text, "output": text}. Raises InputError with the number of a bad line.
    """
    return _read_json_lines(path, '{"input": text, "output": text}', ["input", "output"], _are_texts)


def read_winograd(path: str | Path) -> list[Choice]:
    """The records of `winograd`, five lines each, as in the collection of Winograd schemas.

    A text with a [MASK], `[MASK]`, the candidates between commas, the right one, an empty line. A text with several
    [MASK] is in form too: the files made from WinoBias have some. Raises InputError with the number of the line where a
    bad record begins.
    """
    lines = read_text(path).rstrip().split("\n")
    records = []
    for first in range(0, len(lines), 5):
        record = _winograd_record(lines[first : first + 5])
        if record is None:
            form = "a text that goes on after its [MASK], [MASK], the candidates, the right one, an empty line"
            shown = lines[first].strip()[:60]
            raise InputError(f"{path}, line {first + 1}: expected {form}, got {shown!r}")
        records.append(record)
    return records


def _winograd_record(lines: list[str]) -> Choice | None:
    """The record of five lines, the last of which may be missing; None if it is not in form."""
    lines = lines + [""] * (5 - len(lines))
    text, mask, candidates, answer, end = [line.strip() for line in lines]
    names = [name.strip() for name in candidates.split(",")]
    masked = mask == "[MASK]" and mask in text and (text.count(mask) > 1 or not text.endswith(mask))
    answered = len(names) >= 2 and answer in names
    if not masked or not answered or end:
        return None
    return text, names, names.index(answer)


def _read_json_lines(
    path: str | Path,
    form: str,
    keys: Sequence[str],
    good: Callable[..., Any],
) -> list[tuple]:
    """The values of the keys in each line.

    form: how a line should look, for people; good(*values): are they as they should be? If not, or if it fails,
    InputError with the line's number.
    """
    records = []
    for number, line in enumerate(read_text(path).rstrip().split("\n"), 1):
        try:
            found = json.loads(line)
            values = tuple(found[key] for key in keys)
            in_form = good(*values)
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
            in_form = False
        if not in_form:
            raise InputError(f"{path}, line {number}: expected {form}, got {line[:60]!r}")
        records.append(values)
    return records


def _are_texts(*texts: Any) -> bool:
    """Are all of them texts with something in them?"""
    return all(isinstance(text, str) and text.strip() for text in texts)


def _is_sentiment(text: Any, word: Any) -> bool:
    return _are_texts(text) and word in SENTIMENTS


def _is_choice(context: Any, choices: Any, label: Any) -> bool:
    if not isinstance(choices, list) or len(choices) < 2:
        return False
    if not _are_texts(context, *choices):
        return False
    return type(label) is int and 0 <= label < len(choices)  # True and False are no labels

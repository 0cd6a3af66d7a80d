"""The files of the tasks: one item a line, or five lines an item, every one checked."""

import json
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

from minigpt.errors import InputError
from minigpt.evaluation.tasks_as_text import LAST_WORD, SENTIMENTS, Choice
from minigpt.files.disk import read_text


def read_json_lines(path: str | Path, *, form: str, keys: Sequence[str], good: Callable[..., object]) -> list:
    """The values of the keys in each line; bare ones, if it is one key.

    form: what a line should be, for people; good(*values): is it? Otherwise InputError, with the line's number.
    """
    found = []
    for number, line in enumerate(read_text(path).rstrip().split("\n"), 1):
        try:
            values = tuple(map(json.loads(line).__getitem__, keys))
            whole = good(*values)
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
            whole = False
        if not whole:
            raise InputError(f"{path}, line {number}: expected {form}, got {line[:60]!r}")
        found.append(values[0] if len(keys) == 1 else values)
    return found


def _choice(context: str, choices: list, label: int) -> bool:
    several = isinstance(choices, list) and len(choices) > 1 and _texts(context, *choices)
    return several and type(label) is int and 0 <= label < len(choices)


def _texts(*texts: str) -> bool:
    return all(isinstance(text, str) and text.strip() for text in texts)


def read_winograd(path: str | Path) -> list[Choice]:
    """Records of five lines: a text with [MASK], `[MASK]`, the candidates between commas, the right one, nothing."""
    lines, records = read_text(path).rstrip().split("\n"), []
    for at in range(0, len(lines), 5):
        text, mask, names, answer, end = (line.strip() for line in (lines[at : at + 5] + [""] * 5)[:5])
        names = [name.strip() for name in names.split(",")]
        whole = mask == "[MASK]" and text.count(mask) == 1 and not text.endswith(mask)
        if not whole or answer not in names or len(names) < 2 or end:
            form = "a text that goes on after its one [MASK], [MASK], the candidates, the right one, an empty line"
            raise InputError(f"{path}, line {at + 1}: expected {form}, got {text[:60]!r}")
        records.append((text, names, names.index(answer)))
    return records


def _lines(form: str, keys: tuple[str, ...], good: Callable[..., object]) -> Callable:
    return partial(read_json_lines, form=form, keys=keys, good=good)

read_passages = _lines('{"text": two words or more}', ("text",), LAST_WORD.search)
read_choices = _lines(
    '{"context": text, "choices": [text, text, ...], "label": 0, 1, ...}', ("context", "choices", "label"), _choice
)
read_sentiments = _lines(
    '{"input": text, "output": "positive" or "negative"}', ("input", "output"),
    lambda text, word: _texts(text) and word in SENTIMENTS,
)
read_pairs = _lines('{"input": text, "output": text}', ("input", "output"), _texts)

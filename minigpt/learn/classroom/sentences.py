"""Sentences that others have made, told in the reader's language: diagnoses, reports, errors of a learner's process.

They are put together from parts, in English, by code that knows no language. `words/ko.toml` has a pattern for each:

    "This is {name} itself: the step of this operation is missing." = "{name} 그대로입니다: …"

A name in braces stands for what varies, at least one character. What stands for a name that begins with `text` is a
sentence too, and is told in turn; for one that begins with `names` it is a list, "dq, dk and dv", and needs commas
alone. The first pattern that fits counts. A sentence that fits none stays as it is.
"""

import contextlib
import functools
import string
from collections.abc import Iterator

from minigpt.errors import InputError
from minigpt.learn.classroom.language import language, words

DEEPEST = 5  # sentences within sentences
INNER, LIST = "text", "names"  # how names of parts begin

Pieces = list[tuple[str, str | None]]  # of a template: a literal text, and the name behind it


def told(text: str) -> str:
    """The text in the reader's language, line by line, each with its indent."""
    code = language()
    if code == "en":
        return text
    return "\n".join(_line(line, code) for line in text.split("\n"))


@contextlib.contextmanager
def told_errors() -> Iterator[None]:
    """An InputError that is raised inside has its message in the reader's language."""
    try:
        yield
    except InputError as error:
        message = told(str(error))
        if message == str(error):
            raise
        raise InputError(message) from error


@functools.cache
def patterns(code: str) -> list[tuple[Pieces, str]]:
    """Each pattern of a language: the pieces of the English template, and the other one."""
    tables = words(code)
    return [(pieces(one), other) for one, other in (tables["patterns"] | tables["python"]).items()]


def pieces(template: str) -> Pieces:
    """("a {x} b") -> [("a ", "x"), (" b", None)]"""
    return [(literal, name) for literal, name, _, _ in string.Formatter().parse(template)]


def values_in(text: str, template: Pieces) -> dict[str, str] | None:
    """What stands in a text for the names of a template; None where it does not fit.

    The literal texts are looked for from the left, each one once, so that no text can make this slow.
    """
    first, name = template[0]
    if not text.startswith(first):
        return None
    rest = text[len(first) :]
    found = {}
    for literal, next_name in [*template[1:], ("", None)]:
        if name is None:
            break
        is_last = next_name is None
        end = len(rest) - len(literal) if is_last else rest.find(literal, 1)
        if end < 1 or not rest.startswith(literal, end) or found.get(name, rest[:end]) != rest[:end]:
            return None
        found[name] = rest[:end]
        rest = rest[end + len(literal) :]
        name = next_name
    return None if rest else found


def _line(line: str, code: str) -> str:
    sentence = line.lstrip()
    return line[: len(line) - len(sentence)] + _sentence(sentence, code, 0)


def _sentence(text: str, code: str, depth: int) -> str:
    if depth > DEEPEST:
        return text
    for template, other in patterns(code):
        found = values_in(text, template)
        if found is not None:
            return other.format(**{name: _part(name, value, code, depth) for name, value in found.items()})
    return text


def _part(name: str, value: str, code: str, depth: int) -> str:
    if name.startswith(INNER):
        return _sentence(value, code, depth + 1)
    return value.replace(" and ", ", ") if name.startswith(LIST) else value

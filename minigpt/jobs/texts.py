"""Texts that a command is given: on the command line, in a file, or on standard input, a line each."""

import sys
from collections.abc import Iterator
from pathlib import Path

from minigpt.errors import InputError
from minigpt.files.disk import read_text


def given(text: str | None, file: str | Path | None = None, what: str = "a text") -> Iterator[str]:
    """The text of the command line; or else each line with something in it of a file, or of standard input.

    what: which texts are wanted, in words, for a person who types them. Raises InputError for a text and a file
    together, for an empty text, and as `read_text` does.
    """
    if text is not None and file is not None:
        raise InputError(f"{what} is given twice, as an argument and by --file {file}: leave one out")
    if text is not None:
        if not text.strip():
            raise InputError(f"{what} is empty: give some words")
        yield text
        return
    for _, line in lines(read_text(file) if file is not None else _typed(what)):
        yield line


def lines(text: str | Iterator[str]) -> Iterator[tuple[int, str]]:
    """(number of the line from 1, the line without the spaces around it) of each line with something in it."""
    each = text.split("\n") if isinstance(text, str) else text
    for number, line in enumerate(each, start=1):
        if line.strip():
            yield number, line.strip()


def _typed(what: str) -> Iterator[str]:
    """Each line of standard input as it comes. Raises InputError for bytes that are not UTF-8."""
    if sys.stdin.isatty():
        print(f"type {what}, and Ctrl-D at the end", file=sys.stderr)
    try:
        yield from sys.stdin
    except UnicodeDecodeError as error:
        raise InputError(f"standard input is not UTF-8 ({error}): convert it first") from error

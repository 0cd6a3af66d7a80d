"""A text file line by line, or from its beginning: one of many gigabytes takes no more memory than its longest line."""

from collections.abc import Iterator
from pathlib import Path
from typing import TextIO

from minigpt.errors import InputError
from minigpt.files.disk import about_bytes, about_reading

MARK = b"\xef\xbb\xbf"  # what Windows puts before a text in UTF-8


def text_lines(path: str | Path) -> Iterator[tuple[int, str]]:
    """(number from 1, the line without its end) of each line of a UTF-8 file, whose lines end with \\n or \\r\\n.

    Raises InputError as `read_text` does, when the line is reached; for a file without anything in it, at its end.
    """
    path = Path(path)
    place = 0
    empty = True
    try:
        with path.open("rb") as file:
            for number, raw in enumerate(file, 1):
                line = _decoded(path, raw.removeprefix(MARK) if number == 1 else raw, number, place)
                place += len(raw)
                empty = empty and not line.strip()
                yield number, line
    except OSError as error:
        raise InputError(about_reading(path, error)) from error
    if empty:
        raise InputError(f"{path} is empty: give a file with something in it")


def lines_to_the_last(path: str | Path) -> Iterator[tuple[int, str]]:
    """The same without the empty lines at the end of the file; those between others stay. A tab is something."""
    empty = []
    for number, line in text_lines(path):
        if line.strip(" "):
            yield from empty
            empty = []
            yield number, line
        else:
            empty.append((number, line))


def _decoded(path: Path, raw: bytes, number: int, place: int) -> str:
    """The text of a line, without its end. place: of its first byte in the file."""
    try:
        line = raw.decode("utf-8")
    except UnicodeDecodeError as error:
        raise InputError(about_bytes(path, number, place + error.start, raw[error.start])) from error
    return line.removesuffix("\n").removesuffix("\r")


def opened(path: Path, as_it_came: bool = False) -> TextIO:
    """A UTF-8 text file to read from: without the mark of Windows, and with \\n where lines end; or else with all.

    Raises InputError where it cannot be read.
    """
    try:
        return path.open(encoding="utf-8", newline="") if as_it_came else path.open(encoding="utf-8-sig")
    except OSError as error:
        raise InputError(about_reading(path, error)) from error


def characters(path: Path, file: TextIO, n: int) -> str:
    """The next n characters of an opened file, -1: all; "" at its end. Raises InputError as `text_lines` does."""
    try:
        return file.read(n)
    except OSError as error:
        raise InputError(about_reading(path, error)) from error
    except UnicodeDecodeError as error:
        for _ in text_lines(path):  # which names the line and the byte
            pass
        raise InputError(f"{path} is not UTF-8: convert the file to UTF-8 first") from error


def beginning(path: Path, n: int, as_it_came: bool = False) -> str:
    """The first n characters of a UTF-8 text file, as `opened` and `characters` give them.

    Raises InputError as `text_lines` does, for a file without anything in it too.
    """
    with opened(path, as_it_came) as file:
        text = characters(path, file, n)
    if not text or text.isspace():
        for _ in text_lines(path):  # which names a file without anything in it
            pass
    return text

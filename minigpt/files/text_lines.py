"""The lines of a text file, one after another: a file of many gigabytes takes no more memory than its longest line."""

from collections.abc import Iterator
from pathlib import Path

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

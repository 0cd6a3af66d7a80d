"""The items of a JSON file, one after another: a file of many gigabytes takes no more memory than its longest item.

Published data sets have three forms, which are told apart by how the file begins:

    {"question": ..., "answer": ...}       an item a line (JSON Lines)
    [{...}, {...}]                         an array of items
    {"version": "1.1", "data": [{...}]}    an object whose "data" is such an array, as SQuAD has it

A file that is one object over several lines is one item.
"""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from minigpt.errors import InputError
from minigpt.files.disk import KeyTwice, each_key_once, read_json
from minigpt.files.text_lines import beginning, characters, lines_to_the_last, opened

PIECE = 1 << 16  # characters that are read at once
LONGEST = 1 << 26  # characters of the longest item: a file whose brackets never close is not read to its end

_STRING = r'"(?:[^"\\]|\\.)*+"'
_PAIR = rf"{_STRING}\s*:\s*(?:{_STRING}|[-+.\w]+)"  # a string, a number, true, false, null
_DATA = re.compile(rf'\s*\{{\s*(?:{_PAIR}\s*,\s*)*"data"\s*:\s*\[(?=\s*[{{\]])')
_ARRAY = re.compile(r"\s*\[")
_BEFORE_ITEM = re.compile(r"\s*,\s*|\s*")
_END_OF_DATA = re.compile(rf"\s*\]\s*(?:,\s*{_PAIR}\s*)*\}}\s*")
_END_OF_ARRAY = re.compile(r"\s*\]\s*")

Item = tuple[int, Any]  # the number of the line where it begins, and what it is

_decoder = json.JSONDecoder(object_pairs_hook=each_key_once)


def json_items(path: str | Path) -> Iterator[Item]:
    """The items of a JSON file, with the numbers of the lines where they begin.

    Raises InputError, with the number of the line, for what is not JSON, for an object with a key twice, and for bytes
    that are not UTF-8, when it is reached.
    """
    path = Path(path)
    first = beginning(path, PIECE)
    start = _ARRAY.match(first)
    if start:
        yield from _Array(path, start.end(), _END_OF_ARRAY).items()
        return
    start = _DATA.match(first)
    if start:
        yield from _Array(path, start.end(), _END_OF_DATA).items()
        return
    if _is_one_object(first):
        yield 1, read_json(path)
        return
    for number, line in lines_to_the_last(path):
        yield number, parsed(path, number, line)


def parsed(path: Path, line: int, text: str) -> Any:
    """The value of JSON that a text is. Raises InputError with the number of its line."""
    try:
        value = json.loads(text, object_pairs_hook=each_key_once)
        json.dumps(value, ensure_ascii=False).encode("utf-8")  # half a surrogate pair is no text
    except KeyTwice as error:
        raise InputError(f"{path}, line {line}: {error}") from error
    except (ValueError, RecursionError) as error:
        raise InputError(f"{path}, line {line}: expected an object, {{...}}, got {text[:40]!r}") from error
    return value


def _is_one_object(first: str) -> bool:
    """Does an object begin here that does not end on its line?"""
    text = first.lstrip()
    line, end, _ = text.partition("\n")
    if not text.startswith("{") or not end:
        return False
    try:
        json.loads(line)
    except ValueError:
        return line.strip() == "{" or line.rstrip().endswith(",")
    return False


class _Array:
    """The items of an array of JSON, read piece by piece."""

    def __init__(self, path: Path, start: int, end: re.Pattern[str]):
        """start: where the first item begins, in the first piece; end: what stands behind the last one."""
        self.path = path
        self.end = end
        self.file = opened(path)
        self.text = ""  # what was read, from some item on
        self.place = 0  # in the text: what stands before it is done with
        self.line = 1  # of the place
        self._more()
        self._go_to(start)

    def items(self) -> Iterator[Item]:
        """Each item with its line."""
        with self.file:
            while self._to_the_next():
                line = self.line
                yield line, self._value()
            self._check_end()

    def _more(self) -> bool:
        """Read as much again as is left, so that a long item is not tried too often. Is there anything more?"""
        left = self.text[self.place :]
        pieces = [left]
        length = len(left)
        while length < max(PIECE, 2 * len(left)):
            piece = characters(self.path, self.file, PIECE)
            if not piece:
                break
            pieces.append(piece)
            length += len(piece)
        self.text = "".join(pieces)
        self.place = 0
        return len(pieces) > 1

    def _go_to(self, place: int) -> None:
        self.line += self.text.count("\n", self.place, place)
        self.place = place

    def _to_the_next(self) -> bool:
        """Go on to where the next item begins; is there one?"""
        while True:
            before = _BEFORE_ITEM.match(self.text, self.place)
            place = before.end() if before else self.place
            if place < len(self.text) or not self._more():
                break
        if self.text[place : place + 1] in ("]", ""):
            return False
        self._go_to(place)
        return True

    def _value(self) -> Any:
        """The item that begins here; the place is then behind it."""
        while True:
            try:
                value, end = _decoder.raw_decode(self.text, self.place)
                json.dumps(value, ensure_ascii=False).encode("utf-8")  # half a surrogate pair is no text
                break
            except KeyTwice as error:
                raise InputError(f"{self.path}, line {self.line}: {error}") from error
            except (ValueError, RecursionError) as error:
                if len(self.text) - self.place > LONGEST or not self._more():
                    raise self._damaged() from error
        if not isinstance(value, dict):
            raise self._damaged()
        self._go_to(end)
        return value

    def _check_end(self) -> None:
        """Raises InputError unless the array, and what is around it, ends as it should, and the file with it."""
        while len(self.text) - self.place <= PIECE and self._more():
            pass
        if not self.end.fullmatch(self.text, self.place):
            raise self._damaged()

    def _damaged(self) -> InputError:
        got = self.text[self.place : self.place + 40].split("\n")[0]
        return InputError(f"{self.path}, line {self.line}: expected items of JSON, {{...}}, got {got!r}")

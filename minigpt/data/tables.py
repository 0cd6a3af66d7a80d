"""Tables from files: tab-separated, CSV and JSON Lines, as rows of named columns.

The suffix decides. `.tsv` and `.txt`: fields between tabs; a quote is text like any other, as GLUE and NSMC have it.
`.csv`: fields between commas, quoted where they hold commas, quotes or line ends. `.jsonl` and `.json`: an object a
line, or one array of objects; so too a `.txt` that begins with an object, as SciTail has it. UTF-8, with or without a
byte-order mark; lines end with \\n or \\r\\n; spaces around a field are dropped.
"""

import csv
import json
import re
from collections.abc import Callable, Collection, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from minigpt.errors import InputError
from minigpt.files.json_items import json_items
from minigpt.files.text_lines import lines_to_the_last, text_lines

SUFFIXES = {".tsv": "tsv", ".txt": "tsv", ".csv": "csv", ".jsonl": "json", ".json": "json"}
NUL = "has a NUL byte, which is no text: the file is damaged"
SHOWN = 40  # characters of a field that an error shows

Row = tuple[int, dict[str, Any]]  # the number of a line, and its values by the names of their columns
Line = tuple[int, list[str]]  # the number of a line, and its fields


class Rows:
    """The rows of a table, read from its file each time that they are gone through: they are never all in memory.

    left_out: after a time through, the numbers of the lines with fewer or more fields than columns, where such lines
    are left out.
    """

    def __init__(self, read: Callable[[list[int]], Iterator[Row]]):
        """read(left_out): the rows; it appends to the list that it is given."""
        self.read = read
        self.left_out: list[int] = []

    def __iter__(self) -> Iterator[Row]:
        self.left_out = []
        return self.read(self.left_out)


class Table(NamedTuple):
    """columns: their names. rows: what is in them. header: the line of the file that gave the names; 0 for none."""

    columns: list[str]
    rows: Rows
    header: int = 0


def read_table(
    path: Path,
    header: Sequence[str] = (),
    numbers: Collection[str] = (),
    names: Collection[str] = (),
    broken: bool = False,
) -> Table:
    """The table in a file. Raises InputError for one that is damaged, with the number of the line, when it is reached.

    header: the columns of a file that has no line for them. numbers: the columns are counted, "1", "2", ..., and these
    are wanted: the file has no line of names, unless that line has these very names. names: what columns are usually
    called; where columns are counted, a first line with one of these at a wanted place is refused, as it is no example.
    broken: are lines with fewer or more fields than columns left out? Else they are an error.
    """
    form = _form(path)
    if form == "json":
        return Table(_json_columns(path), Rows(lambda left_out: _json_rows(path)))
    first_line, first = next(_lines(path, form))
    if _holds_names(first, header, numbers):
        columns = first
    elif numbers:
        _check_no_names(path, first_line, first, numbers, names)
        columns = [str(number) for number in range(1, len(first) + 1)]
        first_line = 0
    else:
        columns = list(header)
        first_line = 0
    twice = [name for name in columns if columns.count(name) > 1]
    if twice:
        raise InputError(f"{path} has two columns {twice[0]!r}: rename one")

    def rows(left_out: list[int]) -> Iterator[Row]:
        for line, fields in _lines(path, form):
            if line == first_line:
                continue
            if len(fields) == len(columns):
                yield line, dict(zip(columns, fields, strict=True))
            elif broken:
                left_out.append(line)
            else:
                expected = ", ".join(shown(name) for name in columns)
                raise InputError(f"{path}, line {line}: fields: {len(fields)}, expected {len(columns)}: {expected}")

    return Table(columns, Rows(rows), first_line)


def first_fields(path: Path) -> tuple[list[str], list[str]]:
    """The fields of the first line of a table, and those of the second, without the spaces around them."""
    lines = _lines(path, _form(path))
    _, first = next(lines)
    _, second = next(lines, (0, []))
    return first, second


def _form(path: Path) -> str:
    """ "tsv", "csv" or "json". Raises InputError for a file whose name tells none."""
    form = SUFFIXES.get(path.suffix.lower())
    if form is None:
        raise InputError(f"{path}: expected a name with {', '.join(SUFFIXES)} at its end, which tells its form")
    if form == "tsv":
        _, first = next(text_lines(path), (0, ""))
        if first.startswith('{"'):
            return "json"
    return form


def _lines(path: Path, form: str) -> Iterator[Line]:
    """The lines of a table as fields, without the spaces around them."""
    lines = _csv_lines(path) if form == "csv" else _tsv_lines(path)
    for line, fields in lines:
        yield line, [field.strip() for field in fields]


def shown(text: str) -> str:
    """The beginning of a field, for an error: on one line."""
    text = " ".join(text.split())
    return text if len(text) <= SHOWN else f"{text[: SHOWN - 3]}..."


def _holds_names(first: Sequence[str], header: Sequence[str], numbers: Collection[str]) -> bool:
    """Does the first line hold the names of the columns?"""
    if numbers:
        return set(numbers) <= set(first)
    return not header or not set(header).isdisjoint(first)  # GLUE's test files have a header where its others have none


def _check_no_names(
    path: Path, line: int, first: Sequence[str], numbers: Collection[str], names: Collection[str]
) -> None:
    """Raises InputError where the first line of a table whose columns are counted looks like a line of names."""
    for number in numbers:
        place = int(number) - 1
        field = first[place] if place < len(first) else ""
        if field.lower() in names:
            advice = f"name the columns by it, such as {field}, and not by their numbers"
            raise InputError(f"{path}, line {line}: {field!r} in column {number} looks like a name: {advice}")


def _tsv_lines(path: Path) -> Iterator[Line]:
    for line, content in lines_to_the_last(path):
        if "\0" in content:
            raise InputError(f"{path}, line {line} {NUL}")
        yield line, content.split("\t")


# A field of CSV: between quotes, where a quote is written twice; or without any. The pluses after the stars forbid to
# go back, so that a long record is read once.
_FIELD = r'(?:"(?:[^"]|"")*+"|[^",\n]*+)'
_FIELDS = re.compile(f"(?:{_FIELD}[,\n])*+")


def _csv_lines(path: Path) -> Iterator[Line]:
    """The fields of each record, and the line where it begins: one may span several."""
    for line, record in _csv_records(path):
        if "\0" in record:
            line += record.count("\n", 0, record.index("\0"))
            raise InputError(f"{path}, line {line} {NUL}")
        _check_quotes(path, line, record)
        yield line, _csv_fields(path, line, record)


def _csv_fields(path: Path, line: int, record: str) -> list[str]:
    """The fields of a record. Raises InputError for what is not CSV."""
    limit = csv.field_size_limit(len(record))
    try:
        return next(csv.reader([record], strict=True))
    except csv.Error as error:
        raise InputError(f"{path}, line {line} is not CSV ({error}): a quote within quotes is written twice") from error
    finally:
        csv.field_size_limit(limit)


def _csv_records(path: Path) -> Iterator[tuple[int, str]]:
    """Lines up to one behind which all quotes are closed, with the number of the first."""
    lines: list[str] = []
    is_open = False
    first = 1
    for number, line in lines_to_the_last(path):
        first = first if lines else number
        lines.append(line + "\n")
        is_open ^= line.count('"') % 2 == 1
        if not is_open:
            yield first, "".join(lines)
            lines = []
    if lines:
        yield first, "".join(lines)


def _check_quotes(path: Path, line: int, record: str) -> None:
    """Raises InputError for a quote that neither begins nor ends a field, and is not written twice.

    The library takes such a quote as text, in a field without quotes around it, even where it is strict.
    """
    fields = _FIELDS.match(record)
    end = fields.end() if fields else 0
    if end < len(record):
        line += record.count("\n", 0, end)
        advice = "put quotes around the whole field, and write a quote within it twice"
        got = shown(record[end : record.index("\n", end)])
        raise InputError(f"{path}, line {line} is not CSV: {got!r}: {advice}")


def _json_columns(path: Path) -> list[str]:
    """All columns that occur, in the order of their first occurrence."""
    columns: dict[str, None] = {}
    for _, row in _json_rows(path):
        columns.update(dict.fromkeys(row))
    return list(columns)


def _json_rows(path: Path) -> Iterator[Row]:
    """The objects of a file, with those within them opened: "labels.label" is the label in the object "labels"."""
    for line, record in json_items(path):
        if not isinstance(record, dict):
            got = json.dumps(record, ensure_ascii=False)[:SHOWN]
            raise InputError(f'{path}, line {line}: expected an object, {{"text": ...}}, got {got!r}')
        row = dict(flat(record))
        for name, value in row.items():
            if isinstance(value, str) and "\0" in value:
                raise InputError(f"{path}, line {line} has a NUL byte in column {name!r}, which is no text")
        yield line, row


def flat(record: dict[str, Any]) -> Iterator[tuple[str, Any]]:
    """The pairs of an object of JSON, and of the objects in it, whose names come after the outer one and a full stop.
    """
    for key, value in record.items():
        yield key, value
        if isinstance(value, dict):
            for below, found in value.items():
                yield f"{key}.{below}", found

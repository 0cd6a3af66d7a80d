"""Tables from files: tab-separated, CSV and JSON Lines, as rows of named columns.

The suffix decides. `.tsv` and `.txt`: fields between tabs; a quote is text like any other, as GLUE and NSMC have it.
`.csv`: fields between commas, quoted where they hold commas, quotes or line ends. `.jsonl` and `.json`: an object a
line. UTF-8, with or without a byte-order mark; lines end with \\n or \\r\\n; spaces around a field are dropped.
"""

import csv
import io
import json
import re
from collections.abc import Collection, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from minigpt.errors import InputError
from minigpt.files.disk import KeyTwice, each_key_once, read_text

SUFFIXES = {".tsv": "tsv", ".txt": "tsv", ".csv": "csv", ".jsonl": "json", ".json": "json"}
SHOWN = 40  # characters of a field that an error shows

Row = tuple[int, dict[str, Any]]  # the number of a line, and its values by the names of their columns
Line = tuple[int, list[str]]  # the number of a line, and its fields


class Table(NamedTuple):
    """columns: their names. rows: what is in them. header: the line of the file that gave the names; 0 for none."""

    columns: list[str]
    rows: list[Row]
    header: int = 0


def read_table(
    path: Path,
    header: Sequence[str] = (),
    numbers: Collection[str] = (),
    names: Collection[str] = (),
) -> Table:
    """The table in a file. Raises InputError for one that is damaged, with the number of the line.

    header: the columns of a file that has no line for them. numbers: the columns are counted, "1", "2", ..., and these
    are wanted: the file has no line of names, unless that line has these very names. names: what columns are usually
    called; where columns are counted, a first line with one of these at a wanted place is refused, as it is no example.
    """
    form = SUFFIXES.get(path.suffix.lower())
    if form is None:
        raise InputError(f"{path}: expected a name with {', '.join(SUFFIXES)} at its end, which tells its form")
    text = read_text(path).rstrip("\n")
    if "\0" in text:
        line = text.count("\n", 0, text.index("\0")) + 1
        raise InputError(f"{path}, line {line} has a NUL byte, which is no text: the file is damaged")
    if form == "json":
        return _json_table(path, text)
    lines = _csv_lines(path, text) if form == "csv" else _tsv_lines(text)
    lines = [(line, [field.strip() for field in fields]) for line, fields in lines]
    first_line, first = lines[0]
    if _holds_names(first, header, numbers):
        columns = first
        lines = lines[1:]
    elif numbers:
        _check_no_names(path, first_line, first, numbers, names)
        columns = [str(number) for number in range(1, len(first) + 1)]
        first_line = 0
    else:
        columns = list(header)
        first_line = 0
    _check_fields(path, columns, lines)
    rows = [(line, dict(zip(columns, fields, strict=True))) for line, fields in lines]
    return Table(columns, rows, first_line)


def shown(text: str) -> str:
    """The beginning of a field, for an error."""
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


def _check_fields(path: Path, columns: Sequence[str], lines: Sequence[Line]) -> None:
    """Raises InputError for a column that is there twice, and for a line with more or fewer fields than columns."""
    twice = [name for name in columns if columns.count(name) > 1]
    if twice:
        raise InputError(f"{path} has two columns {twice[0]!r}: rename one")
    for line, fields in lines:
        if len(fields) != len(columns):
            expected = ", ".join(shown(name) for name in columns)
            raise InputError(f"{path}, line {line}: fields: {len(fields)}, expected {len(columns)}: {expected}")


def _tsv_lines(text: str) -> Iterator[Line]:
    for line, content in enumerate(text.split("\n"), 1):
        yield line, content.split("\t")


# A field of CSV: between quotes, where a quote is written twice; or without any. The pluses after the stars forbid to
# go back, so that a long file is read once.
_FIELD = r'(?:"(?:[^"]|"")*+"|[^",\n]*+)'
_FIELDS = re.compile(f"(?:{_FIELD}[,\n])*+")


def _csv_lines(path: Path, text: str) -> Iterator[Line]:
    """Records, and the line where each begins: one may span several."""
    _check_quotes(path, text)
    reader = csv.reader(io.StringIO(text, newline=""), strict=True)
    limit = csv.field_size_limit(len(text))
    line = 1
    try:
        for fields in reader:
            yield line, fields
            line = reader.line_num + 1
    except csv.Error as error:
        raise InputError(f"{path}, line {line} is not CSV ({error}): a quote within quotes is written twice") from error
    finally:
        csv.field_size_limit(limit)


def _check_quotes(path: Path, text: str) -> None:
    """Raises InputError for a quote that neither begins nor ends a field, and is not written twice.

    The library takes such a quote as text, in a field without quotes around it, even where it is strict.
    """
    whole = text + "\n"
    end = _FIELDS.match(whole).end()
    if end < len(whole):
        line = whole.count("\n", 0, end) + 1
        advice = "put quotes around the whole field, and write a quote within it twice"
        raise InputError(f"{path}, line {line} is not CSV: {shown(_line_at(whole, end))!r}: {advice}")


def _line_at(text: str, place: int) -> str:
    """The text from a place to the end of its line."""
    return text[place : text.index("\n", place)]


def _json_table(path: Path, text: str) -> Table:
    """All columns that occur, in the order of their first occurrence, and the object of each line."""
    columns: dict[str, None] = {}
    rows = []
    for line, content in enumerate(text.split("\n"), 1):
        row = _object(path, line, content)
        columns.update(dict.fromkeys(row))
        rows.append((line, row))
    return Table(list(columns), rows)


def _object(path: Path, line: int, text: str) -> dict[str, Any]:
    """The JSON object of a line. Raises InputError for anything else."""
    try:
        found = json.loads(text, object_pairs_hook=each_key_once)
        json.dumps(found, ensure_ascii=False).encode("utf-8")  # half a surrogate pair is no text
        row = dict(found.items())
    except KeyTwice as error:
        raise InputError(f"{path}, line {line}: column {error.key!r} stands there twice: rename one") from error
    except (ValueError, AttributeError, RecursionError) as error:
        raise InputError(f'{path}, line {line}: expected an object, {{"text": ...}}, got {text[:SHOWN]!r}') from error
    for name, value in row.items():
        if isinstance(value, str) and "\0" in value:
            raise InputError(f"{path}, line {line} has a NUL byte in column {name!r}, which is no text")
    return row

"""Which layout does a file have? Its beginning tells."""

import json
import re
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from minigpt.data.examples import KINDS
from minigpt.data.published.layout import Layout
from minigpt.data.published.layouts import LAYOUTS
from minigpt.data.tables import SUFFIXES, first_fields, flat
from minigpt.errors import InputError
from minigpt.files.json_items import json_items
from minigpt.files.text_lines import beginning

LENGTH = 1 << 16  # characters of a file that a pattern is compared with
ANSWERS = ("label", "score")  # the roles that a file without answers lacks
RECORDS = (".txt", ".story")  # the files of a folder
TAKEN_BY = {  # a kind of items: the commands that take them. Without those whose files begin as many others do
    **dict.fromkeys(KINDS, "minigpt finetune"),
    "choice": "minigpt finetune, or eval choice,",
    "pronouns": "minigpt eval winograd",
    "question": "minigpt eval answer",
    "summary": "minigpt eval summarise",
    "state": "minigpt eval state",
}


class Opening(NamedTuple):
    """How a file begins. text: its first characters.

    first: its first object of JSON; or the names of the columns of a table, each with what stands in the first row.
    fields: of the first line of a table.
    """

    text: str
    first: dict[str, Any]
    fields: Sequence[str] = ()


def recognise(path: Path, kinds: Collection[str], labelled: bool = True) -> str | None:
    """The name of the layout of a file or a folder, among those of these kinds; None where none fits.

    labelled: must the answers be there? Raises InputError for what cannot be read.
    """
    opening = open_it(path)
    best = None
    most = -1
    for name, layout in LAYOUTS.items():
        if layout.kind in kinds and _fits(layout, opening, labelled):
            n_keys = len(needed(layout, labelled))
            if n_keys > most:
                best, most = name, n_keys
    return best


def nearest(path: Path, kinds: Collection[str]) -> str:
    """The layout of these kinds that shares the most keys with a file; where none does, one of JSON, or of text."""
    opening = open_it(path)
    is_json = opening.text.lstrip()[:1] in ("{", "[")
    names = [name for name, layout in LAYOUTS.items() if layout.kind in kinds]

    def shared(name: str) -> float:
        keys = needed(LAYOUTS[name], labelled=True)
        return len(set(keys) & set(opening.first)) / max(1, len(keys))

    likest = max(names, key=shared)
    if shared(likest) > 0:
        return likest
    return max(names, key=lambda name: is_json != bool(LAYOUTS[name].begins))


def about_nearest(path: Path, kinds: Collection[str]) -> str:
    """The nearest layout of these kinds, in words, with what its files have; or, of a file of another kind, that."""
    other = about_other_kind(path, kinds)
    if other:
        return other
    name = nearest(path, kinds)
    return f"the nearest layout that is known is {name}: {in_words(LAYOUTS[name])}"


def about_other_kind(path: Path, kinds: Collection[str]) -> str:
    """Of a file of a layout of other kinds than these: which one it is, and which command takes it; else nothing."""
    name = recognise(path, [kind for kind in TAKEN_BY if kind not in kinds])
    return f"it is a file of {name}, which {TAKEN_BY[LAYOUTS[name].kind]} takes" if name else ""


def in_words(layout: Layout) -> str:
    """What the files of a layout look like."""
    return layout.form or f"columns {', '.join(needed(layout, labelled=True) or layout.header)}"


def unknown_layout(path: Path, kinds: Collection[str]) -> InputError:
    """The error about a file of none of the layouts of these kinds; it names the nearest one, and all others.

    Of a file of JSON that is damaged before its second item: the error about that.
    """
    if re.match(r"\s*(?:\[\s*)?\{", open_it(path).text):
        try:
            next(json_items(path), None)
        except InputError as error:
            return error
    name = nearest(path, kinds)
    got = open_it(path).text[:60].split("\n")[0]
    others = ", ".join(other for other in LAYOUTS if LAYOUTS[other].kind in kinds and other != name)
    known = f"{name} is the nearest layout of {name}, {others}" if others else f"this layout is called {name}"
    known = about_other_kind(path, kinds) or known
    return InputError(f"{path}, line 1: expected {in_words(LAYOUTS[name])}, got {got!r}: {known}")


def needed(layout: Layout, labelled: bool) -> tuple[str, ...]:
    """What every object of JSON, or every table, of this layout has."""
    columns = [column for role, column in layout.columns.items() if labelled or role not in ANSWERS]
    if layout.keys and labelled:
        return layout.keys
    if layout.keys:
        answers = {column for role, column in layout.columns.items() if role in ANSWERS}
        answers |= {"label", "answer", "answers"}
        return tuple(key for key in layout.keys if key not in answers)
    names: list[str] = []
    for column in columns:
        names += [column] if isinstance(column, str) else column
    if layout.read is None and labelled and layout.names and "label" not in layout.columns:
        names.append("label")
    return tuple(names)


def open_it(path: Path) -> Opening:
    """How a file begins; of a folder, its first file. Raises InputError for what cannot be read."""
    if path.is_dir():
        path = _first_file(path)
    text = beginning(path, LENGTH)
    if text.lstrip()[:1] in ("{", "["):
        return Opening(text, _first_item(path))
    suffix = SUFFIXES.get(path.suffix.lower())
    if suffix in ("tsv", "csv"):
        header, row = first_fields(path)
        return Opening(text, dict(zip(header, row, strict=False)), header)
    return Opening(text, {})


def _first_file(folder: Path) -> Path:
    for path in sorted(folder.rglob("*")):
        if path.suffix.lower() in RECORDS:
            return path
    what = f"it is a folder, and none of files {' or '.join(RECORDS)}"
    raise InputError(f"{folder} cannot be read ({what}): give a file, or such a folder")


def _first_item(path: Path) -> dict[str, Any]:
    """The first object of a file of JSON, with the objects in it opened; {} where it is not in order."""
    try:
        for _, item in json_items(path):
            return dict(flat(item)) if isinstance(item, dict) else {}
    except InputError:
        pass
    return {}


def _fits(layout: Layout, opening: Opening, labelled: bool) -> bool:
    if layout.read is not None and layout.keys and opening.fields:
        return False  # such a reader wants objects of JSON
    if layout.begins:
        return re.match(layout.begins, opening.text) is not None
    if layout.header:
        return _is_without_names(layout, opening.fields)
    keys = needed(layout, labelled)
    if not keys or not set(keys) <= set(opening.first):
        return False
    return not labelled or _has_known_label(layout, opening.first)


def _has_known_label(layout: Layout, first: dict[str, Any]) -> bool:
    """Is the label of the first example one that such files have?"""
    column = layout.columns.get("label", "label")
    if not layout.names or column not in first:
        return True
    value = first[column]
    label = value if isinstance(value, str) else json.dumps(value)
    return label in {*layout.names, *layout.names.values(), "-"}


def _is_without_names(layout: Layout, fields: Sequence[str]) -> bool:
    """Is the first line of a table an example of a layout that has no line of names?"""
    if len(fields) != len(layout.header):
        return False
    label = fields[layout.header.index("label")]
    return label in {*layout.names, *layout.names.values()}

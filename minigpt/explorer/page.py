"""The page: template, style, script and the models in one file, which works from a disk and asks for nothing."""

import json
import os
import re
from pathlib import Path
from typing import Any

from minigpt.errors import InputError, shown
from minigpt.explorer.bundle import bundle
from minigpt.explorer.entries import mistake_entries
from minigpt.explorer.modules import read_modules, with_lists
from minigpt.files.disk import read_text, read_toml, write_text

HOME = Path(__file__).parent
JS = HOME / "js"
TEMPLATE = JS / "view" / "page.html"
STYLE = JS / "view" / "style.css"
WORDS_FILE = HOME / "words.toml"
MARK = '<meta name="generator" content="minigpt explore">'  # pages of ours: they may be written again
MARK_WITHIN = 4096  # bytes, from the beginning of a page
PLACES = re.compile(r"<!-- (style|models|script) -->")


def assemble(data: dict[str, Any]) -> str:
    """The text of a page that holds these models: see `job.content`. Its words are added here, in both languages.

    Raises InputError where a part of the page is missing from this installation.
    """
    data = data | {"words": words_of(data.get("kinds", [])), "mistakes": mistake_entries()}
    parts = {
        "style": f"<style>\n{read_text(STYLE)}\n</style>",
        "models": f'<script type="application/json" id="models">{as_json(data)}</script>',
        "script": f'<script type="module">\n{bundle(modules())}</script>',
    }
    return PLACES.sub(lambda place: parts[place.group(1)], read_text(TEMPLATE))


def modules() -> dict[str, str]:
    """The modules of the page's script by name, with its lists of operations and of mistakes."""
    return with_lists(read_modules(JS))


def words_of(kinds: list[str]) -> dict[str, dict[str, str]]:
    """{language: {key: sentence}} of a page. kinds: of what it shows, such as encoder and recorded, the first wins.

    A sentence whose key begins with one of them, as "encoder.lead", stands there for "lead", too.
    """
    words = read_toml(WORDS_FILE)
    for sentences in words.values():
        for kind in reversed(kinds):
            own = {key.removeprefix(f"{kind}."): text for key, text in sentences.items() if key.startswith(f"{kind}.")}
            sentences |= own
    return words


def as_json(value: Any) -> str:
    """JSON that can stand inside of a script: no tag can begin in it, because < is written as \\u003c."""
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    return text.replace("<", "\\u003c")


def check_place(path: Path) -> Path:
    """The file that a page will be, behind all links.

    Raises InputError where no page can be written: a name that no file can have, a folder, a file that is no page of
    ours, no permission.
    """
    file = _behind_links(path)
    if file.is_dir():
        raise InputError(f"--out {path} is a folder: give the name of a file, such as {path / 'explorer.html'}")
    if file.exists() and not is_ours(file):
        raise InputError(f"--out {path} is there already, and is no page of minigpt explore: give another name")
    _check_parent(path, file)
    return file


def _behind_links(path: Path) -> Path:
    """The path without links. Raises InputError for a circle of links, and for a name that no file can have."""
    try:
        os.fsencode(path)
        return path.resolve()
    except (OSError, RuntimeError, ValueError) as error:  # RuntimeError: a circle, until Python 3.12
        raise InputError(f"--out {shown(str(path))} cannot be the name of a file: give another one") from error


def _check_parent(path: Path, file: Path) -> None:
    """Raises InputError where the folder of a file is no folder or takes no file; one that is missing will be made."""
    parent = next(folder for folder in file.parents if folder.exists())
    if not parent.is_dir():
        raise InputError(f"--out {path}: {parent} is a file, not a folder: give another name")
    if not os.access(parent, os.W_OK | os.X_OK):
        raise InputError(f"--out {path}: you may not write in the folder {parent}: give a name in another one")


def is_ours(path: Path) -> bool:
    """Is this file a page that was written here? Raises InputError where it cannot be read."""
    if not path.is_file():
        return False
    try:
        with path.open("rb") as file:
            return MARK.encode() in file.read(MARK_WITHIN)
    except OSError as error:
        why = f"{path} is there already, and cannot be read ({error.strerror})"
        raise InputError(f"--out: {why}, so it may be no page of minigpt explore: give another name") from error


def write(path: Path, page: str) -> None:
    """Write a page, whole or not at all, in place of an older one. Raises InputError as `check_place` does."""
    file = check_place(path)
    write_text(file, page)

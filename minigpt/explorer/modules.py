"""The modules of the page's script: the files of `js/`, and two lists of their functions, which are written here.

`operations.js` is what the table of operations holds when nothing is wrong. `museum.js` lists the planted mistakes: a
piece of the museum says which lines of which function it changes on the page (`page_change`), as it does in Python, and
the changed function stands in the same module as the right one, under a name of its own.
"""

import json
import re
from pathlib import Path
from typing import NamedTuple

from minigpt.files.disk import read_text
from minigpt.learn.museum.pieces import Piece, changed, pieces
from minigpt.learn.museum.source import WHOLE_MODEL
from minigpt.ops import names as OPERATIONS

ORDER = (*OPERATIONS, WHOLE_MODEL)  # of the mistakes in their menu
FUNCTION = re.compile(r"^export function (\w+)\(.*?^\}", re.MULTILINE | re.DOTALL)


class Function(NamedTuple):
    """A function of a module, such as "ops/gelu.js"."""

    module: str
    text: str


def read_modules(folder: Path) -> dict[str, str]:
    """{"ops/gelu.js": its text, ...}: the modules below a folder."""
    found = {}
    for path in sorted(folder.rglob("*.js")):
        name = path.relative_to(folder).as_posix()
        found[name] = read_text(path)
    return found


def with_lists(modules: dict[str, str]) -> dict[str, str]:
    """The same modules with the mistakes planted, and both lists. Raises ValueError for a change that fits nowhere."""
    functions = {}
    for module, text in modules.items():
        for found in FUNCTION.finditer(text):
            functions[found[1]] = Function(module, found[0])
    written = modules | {"operations.js": operations(functions)}
    imports = []
    entries = ["export const MUSEUM = {};", "export const WRONG_FOR_ITS_LOSS = {};"]
    for piece in sorted(pieces(), key=lambda one: ORDER.index(one.op)):
        for name, wrong in wrong_functions(piece, functions).items():
            own_name = f"{piece.name}_{name}"
            text = wrong.text.replace(f"function {name}(", f"function {own_name}(", 1)
            written[wrong.module] += f"{text}\n"
            imports.append(_import(own_name, wrong.module))
            entries.append(f"(MUSEUM.{piece.name} ??= {{}}).{name} = {own_name};")
        if piece.page_wrong:
            pattern = json.dumps(piece.page_wrong)
            entries.append(f"WRONG_FOR_ITS_LOSS.{piece.name} = new RegExp({pattern});")
    written["museum.js"] = "\n".join([*imports, *entries, ""])
    return written


def operations(functions: dict[str, Function]) -> str:
    """The text of `operations.js`: every pass of an operation or of a block, and `add`."""
    lines = []
    names = []
    for name, (module, _) in functions.items():
        is_pass = name == "add" or name.endswith(("_forward", "_backward"))
        if is_pass and module.startswith(("ops/", "models/gpt")):
            lines.append(_import(name, module))
            names.append(name)
    lines.append(f"export const OPERATIONS = {{ {', '.join(names)} }};")
    return "\n".join([*lines, ""])


def wrong_functions(piece: Piece, functions: dict[str, Function]) -> dict[str, Function]:
    """The functions that this piece replaces on the page, with the mistake, by the names of the right ones."""
    wrong: dict[str, Function] = {}
    for change in piece.page_change.strip("\n").split("\n\n"):
        if not change:
            continue
        first = change.splitlines()[0]
        name = first[2:] if first.startswith("@ ") else f"{piece.op}_backward"
        before = wrong.get(name, functions[name])
        wrong[name] = before._replace(text=changed(before.text, change, name))
    return wrong


def _import(name: str, module: str) -> str:
    return f'import {{ {name} }} from "./{module}";'

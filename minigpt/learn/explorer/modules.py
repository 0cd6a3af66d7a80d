"""The modules of the page's script: the files of `js/`, and two lists of their functions, which are written here.

`operations.js` is what the table of operations holds when nothing is wrong. `museum.js` lists the planted mistakes: a
piece of the museum says which lines of which function it changes on the page (`page_change`), as it does in Python, and
the changed function stands in the same module as the right one, under a name of its own.
"""

import json
import re
from pathlib import Path

from minigpt.files.disk import read_text
from minigpt.learn.museum.pieces import Piece, changed, pieces
from minigpt.learn.museum.source import WHOLE_MODEL
from minigpt.ops import names as OPERATIONS

FUNCTION = re.compile(r"^export function (\w+)\(.*?^\}", re.MULTILINE | re.DOTALL)


def read_modules(folder: Path) -> dict[str, str]:
    """{"ops/gelu.js": its text, ...}: the modules below a folder."""
    return {path.relative_to(folder).as_posix(): read_text(path) for path in sorted(folder.rglob("*.js"))}


def with_lists(modules: dict[str, str]) -> dict[str, str]:
    """The same modules with the mistakes planted, and both lists. Raises ValueError for a change that fits nowhere."""
    right = {}  # {a function: its module, its text}
    for module, text in modules.items():
        for found in FUNCTION.finditer(text):
            right[found[1]] = module, found[0]
    planted = modules | {"operations.js": operations(right)}
    museum = ["export const MUSEUM = {};", "export const WRONG_FOR_ITS_LOSS = {};"]
    for piece in sorted(pieces(), key=lambda one: (*OPERATIONS, WHOLE_MODEL).index(one.op)):
        for function, wrong in wrong_functions(piece, right).items():
            module, _ = right[function]
            own_name = f"{piece.name}_{function}"
            planted[module] += wrong.replace(f"function {function}(", f"function {own_name}(", 1) + "\n"
            museum.insert(0, f'import {{ {own_name} }} from "./{module}";')
            museum.append(f"(MUSEUM.{piece.name} ??= {{}}).{function} = {own_name};")
        if piece.page_wrong:
            museum.append(f"WRONG_FOR_ITS_LOSS.{piece.name} = new RegExp({json.dumps(piece.page_wrong)});")
    return planted | {"museum.js": "\n".join(museum) + "\n"}


def operations(functions: dict[str, tuple[str, str]]) -> str:
    """The text of `operations.js`: every operation, and the blocks."""
    names = [name for name, (module, _) in functions.items() if _is_of_the_table(module, name)]
    imports = [f'import {{ {name} }} from "./{functions[name][0]}";' for name in names]
    return "\n".join([*imports, f"export const OPERATIONS = {{ {', '.join(names)} }};", ""])


def _is_of_the_table(module: str, function: str) -> bool:
    is_pass = function == "add" or function.endswith(("_forward", "_backward"))
    return is_pass and module.startswith(("ops/", "models/gpt"))


def wrong_functions(piece: Piece, right: dict[str, tuple[str, str]]) -> dict[str, str]:
    """{a function that this piece replaces on the page: its text with the mistake}"""
    wrong: dict[str, str] = {}
    for change in filter(None, piece.page_change.strip("\n").split("\n\n")):
        first = change.splitlines()[0]
        function = first[2:] if first.startswith("@ ") else f"{piece.op}_backward"
        _, text = right[function]
        wrong[function] = changed(wrong.get(function, text), change, function)
    return wrong

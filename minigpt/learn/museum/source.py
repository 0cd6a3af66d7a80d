"""The library's source of one operation as a file of its own: NumPy alone, no refusals, no story.

What tells how a gradient is derived is left out of docstrings, except the line of shapes: a learner reads the code.
"""

import ast
import functools
import importlib
import inspect
import re
from typing import NamedTuple

from minigpt.learn.museum import gpt1_in_functions
from minigpt.ops import reference

WHOLE_MODEL = "gpt1"  # stands where other pieces have the name of an operation
HOME = "minigpt.ops.reference."
BESIDE = ("minigpt.ops.normal", "minigpt.ops.targets")  # what the reference uses of these belongs to its operations
PLAIN_TYPES = {
    "tuple[int, ...] | None": "object",
    "tuple[int, ...]": "tuple",
    "Key | None": "object",
    "Array | None": "object",
    "Array": "np.ndarray",
    "Any": "object",
}
REWRITTEN = (  # NumPy is the only array module here
    (r"\barray_module\([^()]*\)", "np"),
    (r"(keep_mask\([^()]*), xp\)", r"\1, np)"),
    (r", xp\)", ")"),
    (r"\(xp, ", "("),
    (r"\bxp\.", "np."),
    (r"\bminigpt\.ops\.table import table as ops", "minigpt import ops"),
    (r"(\S)  #.*", r"\1"),  # what stands behind a line explains it
    (r"^( *# [^\n:,]*)(: |, where|, which|, for).*", r"\1"),  # of a comment above a line only the forward line stays
)


class _Found(NamedTuple):
    """A definition at the top of a file."""

    module: str
    node: ast.stmt
    lines: list[str]


@functools.cache
def right_source(op: str) -> str:
    """The text of a file with both passes of this operation, or, for "gpt1", of a whole model; it is right."""
    if op == WHOLE_MODEL:
        return inspect.getsource(gpt1_in_functions)
    home = inspect.getmodule(getattr(reference, f"{op}_forward")).__name__
    found: dict[str, _Found] = {}
    for way in ("forward", "backward"):
        _collect(home, f"{op}_{way}", found)
    ordered = sorted(found.values(), key=lambda one: (one.module == home, one.module, one.node.lineno))
    parts = [_text(one) for one in ordered]
    body = _joined(parts)
    return _imports(body) + body


def _collect(module: str, name: str, found: dict[str, _Found]) -> None:
    """Put a definition, and all that it uses, into `found`."""
    if name in found:
        return
    defined, imported = _names_of(module)
    if name in imported:
        _collect(*imported[name], found)
    elif name in defined:
        found[name] = defined[name]
        for node in ast.walk(defined[name].node):
            if isinstance(node, ast.Name):
                _collect(module, node.id, found)


@functools.cache
def _names_of(module: str) -> tuple[dict[str, _Found], dict[str, tuple[str, str]]]:
    """The definitions of a file by name, and what it imports from its neighbours: (module, name)."""
    text = inspect.getsource(importlib.import_module(module))
    defined, imported = {}, {}
    for node in ast.parse(text).body:
        if isinstance(node, ast.ImportFrom) and node.module.startswith((HOME, *BESIDE)):
            imported |= {alias.name: (node.module, alias.name) for alias in node.names}
        names = [node.name] if isinstance(node, (ast.FunctionDef, ast.ClassDef)) else []
        if isinstance(node, ast.Assign):
            names = [target.id for target in node.targets if isinstance(target, ast.Name)]
        for name in names:
            defined[name] = _Found(module, node, text.splitlines())
    for refusal in ("check_ids", "check_targets"):
        imported.pop(refusal, None)
    return defined, imported


def _text(one: _Found) -> str:
    """The lines of a definition, without refusals and stories, and with NumPy."""
    node, lines = one.node, list(one.lines)
    left_out = set()
    for part in ast.walk(node):
        if isinstance(part, ast.stmt) and _is_refusal(part):
            left_out |= set(range(part.lineno, part.end_lineno + 1))
    if isinstance(node, ast.FunctionDef) and ast.get_docstring(node):
        story = node.body[0]
        left_out |= set(range(story.lineno + 1, story.end_lineno + 1))
        lines[story.lineno - 1] = f'    """{ast.get_docstring(node).splitlines()[0]}"""'
    kept = [lines[i - 1] for i in range(node.lineno, node.end_lineno + 1) if i not in left_out]
    text = "\n".join(kept)
    for pattern, new in REWRITTEN:
        text = re.sub(pattern, new, text, flags=re.MULTILINE)
    if not isinstance(node, ast.Assign):
        for kind, plain in PLAIN_TYPES.items():
            text = re.sub(rf"(: |-> ){re.escape(kind)}(?=[,):\s]|$)", rf"\1{plain}", text, flags=re.MULTILINE)
    return text


def _is_refusal(part: ast.stmt) -> bool:
    """Does a statement only refuse what cannot be used, or ask for the array module?"""
    text = ast.unparse(part)
    if isinstance(part, ast.If):
        return all(isinstance(one, ast.Raise) for one in part.body) and not part.orelse
    return text.startswith(("check_", "problem = ", "xp = array_module"))


def _joined(parts: list[str]) -> str:
    """The definitions below each other: two empty lines around functions, none between constants."""
    text = ""
    for part in parts:
        is_constant = not part.startswith(("def ", "class "))
        text += "" if is_constant and text.endswith("constant\n") else "\n\n"
        text += part + ("  # constant\n" if is_constant else "\n")
    return text.replace("  # constant\n", "\n")


def _imports(body: str) -> str:
    """The lines at the top of the file: what the code below uses."""
    lines = ["import math"] if "math." in body else []
    lines += ["from typing import NamedTuple"] if "(NamedTuple)" in body else []
    lines += ["", "import numpy as np"] if lines else ["import numpy as np"]
    own = ["from minigpt import ops"] if re.search(r"\bops\.", body) else []
    own += ["from minigpt.ops.random_keys import keep_mask"] if "keep_mask(" in body else []
    lines += ["", *own] if own else []
    return "\n".join(lines) + "\n"

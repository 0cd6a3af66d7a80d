"""The Python files of the package: each is read and parsed once, for all tests that look at the text of the code."""

import ast
import functools
from pathlib import Path
from typing import NamedTuple

import minigpt

HOME = Path(minigpt.__file__).parent
FILES = sorted(HOME.rglob("*.py"))


class Source(NamedTuple):
    """A file of Python: its text, its syntax tree, and every node of the tree."""

    text: str
    tree: ast.Module
    nodes: list[ast.AST]

    def __repr__(self) -> str:
        return f"<{len(self.nodes)} nodes>"


@functools.cache
def source_of(path: Path) -> Source:
    """What stands in a file of the package."""
    return parsed(path.read_text(encoding="utf-8"))


def parsed(text: str) -> Source:
    """The same of any text."""
    tree = ast.parse(text)
    return Source(text, tree, list(ast.walk(tree)))

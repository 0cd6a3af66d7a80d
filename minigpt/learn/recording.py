"""A function that tells every value it computes, by its name: what a debugger sees, without a debugger.

The source of the function is read, and after each assignment `x_hat = …` of its copy stands one more line, which
reports the value. The copy is then compiled like any other function.
"""

import ast
import inspect
from collections.abc import Callable
from typing import Any, NamedTuple

from minigpt.errors import InputError
from minigpt.learn.sandbox.answers import assigned, definition_of, names_around, reporting


class Recorded(NamedTuple):
    """A copy of a function that reports its assignments, and what its source says."""

    call: Callable  # call(report, *args, **constants): what report(name, value) returns becomes the value of the name
    parameters: list[str]
    lines: dict[str, str]  # name: the line that assigns it
    uses: dict[str, list[str]]  # name: the lines that use it
    around: dict[str, Any]  # the names outside the function that its lines may use


def recorded(function: Callable) -> Recorded:
    """The copy of a function that is written with `def`. Raises InputError where its source cannot be read."""
    definition = _definition(function)
    lines: dict[str, str] = {}
    uses: dict[str, list[str]] = {}
    for statement in ast.walk(definition):
        names = assigned(statement)
        for name in names:
            lines[name] = ast.unparse(statement)
        if names:
            for name in _names_read(statement):
                uses.setdefault(name, []).append(ast.unparse(statement))
    call = reporting(definition, function)
    return Recorded(call, list(inspect.signature(function).parameters), lines, uses, names_around(function))


def _definition(function: Callable) -> ast.FunctionDef:
    """The syntax tree of a function."""
    name = getattr(function, "__name__", repr(function))
    try:
        definition = definition_of(function)
    except (OSError, TypeError, SyntaxError, ValueError) as error:
        raise InputError(f"{name}: its source cannot be read: write it with def, in a file or in a cell") from error
    if not isinstance(definition, ast.FunctionDef):
        raise InputError(f"{name} is not written with def: its lines have no names")
    return definition


def _names_read(statement: Any) -> set[str]:
    """The names on the right side of an assignment."""
    return {node.id for node in ast.walk(statement.value) if isinstance(node, ast.Name)}

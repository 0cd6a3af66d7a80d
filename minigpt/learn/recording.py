"""A function that tells every value it computes, by its name: what a debugger sees, without a debugger.

The source of the function is read, and after each assignment `x_hat = …` of its copy stands one more line, which
reports the value. The copy is then compiled like any other function.
"""

import ast
import inspect
import textwrap
from collections.abc import Callable
from typing import NamedTuple

from minigpt.errors import InputError

REPORT = "__report"  # what the copy calls after each assignment


class Recorded(NamedTuple):
    """A copy of a function that reports its assignments, and what its source says."""

    call: Callable  # call(report, *args, **constants): what report(name, value) returns becomes the value of the name
    parameters: list[str]
    lines: dict[str, str]  # name: the line that assigns it
    uses: dict[str, list[str]]  # name: the lines that use it


def recorded(function: Callable) -> Recorded:
    """The copy of a function that is written with `def`. Raises InputError where its source cannot be read."""
    definition = _definition(function)
    lines: dict[str, str] = {}
    uses: dict[str, list[str]] = {}
    for statement in ast.walk(definition):
        assigned = _assigned(statement)
        for name in assigned:
            lines[name] = ast.unparse(statement)
        if assigned:
            for name in _names_read(statement):
                uses.setdefault(name, []).append(ast.unparse(statement))
    copy = _Reporting().visit(definition)
    copy.decorator_list = []
    code = compile(ast.fix_missing_locations(ast.Module([copy], [])), f"<lines of {function.__name__}>", "exec")
    around = function.__globals__ | inspect.getclosurevars(function).nonlocals

    def call(report, *args, **constants):
        namespace = around | {REPORT: report}
        exec(code, namespace)
        return namespace[copy.name](*args, **constants)

    return Recorded(call, list(inspect.signature(function).parameters), lines, uses)


def _definition(function: Callable) -> ast.FunctionDef:
    """The syntax tree of a function."""
    name = getattr(function, "__name__", repr(function))
    try:
        (definition,) = ast.parse(textwrap.dedent(inspect.getsource(function))).body
    except (OSError, TypeError, SyntaxError, ValueError) as error:
        raise InputError(f"{name}: its source cannot be read: write it with def, in a file or in a cell") from error
    if not isinstance(definition, ast.FunctionDef):
        raise InputError(f"{name} is not written with def: its lines have no names")
    return definition


def _assigned(statement: ast.AST) -> list[str]:
    """The names that a statement assigns: `a = …`, `a, b = …`, `a += …`."""
    if isinstance(statement, ast.Assign):
        targets = statement.targets
    elif isinstance(statement, ast.AugAssign):
        targets = [statement.target]
    else:
        return []
    names = []
    for target in targets:
        parts = target.elts if isinstance(target, ast.Tuple) else [target]
        names += [part.id for part in parts if isinstance(part, ast.Name)]
    return names


def _names_read(statement: ast.AST) -> set[str]:
    """The names on the right side of an assignment."""
    return {node.id for node in ast.walk(statement.value) if isinstance(node, ast.Name)}


class _Reporting(ast.NodeTransformer):
    """Puts `name = __report("name", name)` after every assignment."""

    def _with_reports(self, statement):
        reports = []
        for name in _assigned(statement):
            reports += ast.parse(f"{name} = {REPORT}({name!r}, {name})").body
        return [statement, *reports]

    visit_Assign = _with_reports
    visit_AugAssign = _with_reports

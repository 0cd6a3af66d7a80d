"""A copy of a function that reports what each of its lines assigns; what it is made of, and nothing else.

After each assignment `x_hat = …` of the copy stands one more line, which reports the value by its name. This file needs
the standard library only: the learner's process loads it by its path.
"""

import ast
from types import CodeType

REPORT = "__report"  # what the copy calls after each assignment


def assigned(statement: ast.AST) -> list[str]:
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


def names_read(statement: ast.AST) -> set[str]:
    """The names on the right side of an assignment."""
    return {node.id for node in ast.walk(statement.value) if isinstance(node, ast.Name)}


def reporting(definition: ast.FunctionDef, title: str) -> CodeType:
    """The code of a function definition that calls REPORT(name, value) after each assignment.

    What REPORT returns becomes the value of the name. title: the name of the file in messages. The definition itself is
    changed.
    """
    copy = _Reporting().visit(definition)
    copy.decorator_list = []
    return compile(ast.fix_missing_locations(ast.Module([copy], [])), title, "exec")


class _Reporting(ast.NodeTransformer):
    """Puts `name = __report("name", name)` after every assignment."""

    def _with_reports(self, statement):
        reports = []
        for name in assigned(statement):
            reported = ast.parse(f"{name} = {REPORT}({name!r}, {name})").body
            reports += [ast.copy_location(node, statement) for node in reported]
        return [statement, *reports]

    visit_Assign = _with_reports
    visit_AugAssign = _with_reports

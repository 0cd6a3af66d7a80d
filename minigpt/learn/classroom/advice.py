"""What to print after a second failure: the wrong tensor at its worst entry, and the names of which it is made."""

import ast
import math

from minigpt.learn.classroom.language import tr
from minigpt.learn.classroom.verdict import Finding

MOST_NAMES = 3


def what_to_print(text: str, finding: Finding) -> list[str]:
    """Lines of advice for a learner's file; none where the tensor is assigned nowhere in it."""
    for name in (f"d{finding.tensor}", finding.tensor):
        found = _last_assignment(text, name)
        if found is None:
            continue
        function, line, used = found
        entry = f"[{', '.join(map(str, finding.index))}]" if finding.index else ""
        prints = [f'print("{name}", {name}.shape, {name}{entry})']
        prints += [f'print("{other}", np.shape({other}))' for other in used[:MOST_NAMES]]
        head = tr("Print this below line {line}, in {function}:", line=line, function=function)
        advice = [head, *(f"    {one}" for one in prints)]
        if math.isfinite(finding.true) and entry:
            text_of_true = tr("{name}{entry} should be {true:.6g}. Then the same for each name in that line, backward.",
                              name=name, entry=entry, true=finding.true)  # fmt: skip
            advice.append(text_of_true)
        return advice
    return []


def _last_assignment(text: str, name: str) -> tuple[str, int | None, list[str]] | None:
    """(function, line, the names on the right side) where a name gets its last value in a function."""
    found = None
    for function in ast.walk(ast.parse(text)):
        if not isinstance(function, ast.FunctionDef):
            continue
        for statement in ast.walk(function):
            if isinstance(statement, (ast.Assign, ast.AugAssign)) and name in _targets(statement):
                found = function.name, statement.end_lineno, _names(statement.value, name)
    return found


def _targets(statement) -> set[str]:
    targets = statement.targets if isinstance(statement, ast.Assign) else [statement.target]
    return {node.id for target in targets for node in ast.walk(target) if isinstance(node, ast.Name)}


def _names(value: ast.AST, without: str) -> list[str]:
    """The names that are read, in their order, without modules and functions that are called."""
    called = {
        node.func.id for node in ast.walk(value) if isinstance(node, ast.Call) and isinstance(node.func, ast.Name)
    }
    read = [node.id for node in ast.walk(value) if isinstance(node, ast.Name)]
    skipped = called | {"np", "math", "ops", without}
    return list(dict.fromkeys(name for name in read if name not in skipped))

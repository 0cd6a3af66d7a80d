"""Every exercise has one form, a solution passes its judge, here and with its functions elsewhere, and none is given away.

tests/solutions/NAME.py is what a reader would hand in: the part of lessons/exercises/NAME.py above the line MARKER.
"""

import ast
import copy
import runpy
import sys
from functools import cache
from pathlib import Path

import numpy as np
import pytest

from minigpt import gradcheck
from minigpt.learn import check_file, lines
from minigpt.learn.lessons import PATTERNS

ROOT = Path(__file__).parent.parent
EXERCISES = {path.stem: path for path in sorted((ROOT / "lessons" / "exercises").glob("*.py"))}
SOLUTIONS = {path.stem: path for path in sorted((ROOT / "tests" / "solutions").glob("*.py"))}
MARKER = "# --- the judge: nothing below is yours ".ljust(120, "-")
BY_LIBRARY = [name for name, path in EXERCISES.items() if "check_file" in path.read_text(encoding="utf-8")]
BY_THEMSELVES = [name for name in EXERCISES if name not in BY_LIBRARY]
SLOW = {"01_find_the_bug", "02_find_the_bug", "03_find_the_bug", "04_find_the_bug", "05_find_the_bug", "18_find_the_bug",
        "21_rmsnorm"}  # fmt: skip


@cache
def parts(name: str) -> tuple[str, str]:
    """What stands above the marker, and the rest."""
    text = EXERCISES[name].read_text(encoding="utf-8")
    upper, judge = text.split(MARKER + "\n")
    return upper, MARKER + "\n" + judge


def named(names: list[str]) -> list:
    """As parameters of tests, the slow ones marked."""
    return [pytest.param(name, marks=[pytest.mark.slow] if name in SLOW else []) for name in names]


def test_every_exercise_has_a_solution():
    assert list(SOLUTIONS) == list(EXERCISES)


# --- the form --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", EXERCISES)
def test_one_line_divides_an_exercise(name):
    assert EXERCISES[name].read_text(encoding="utf-8").splitlines().count(MARKER) == 1
    upper, judge = (ast.parse(part) for part in parts(name))
    assert not [node for node in upper.body if isinstance(node, ast.If)], "what runs stands below the marker"
    last = judge.body[-1]
    assert isinstance(last, ast.If) and ast.unparse(last.test) == "__name__ == '__main__'"
    assert ast.unparse(last.body[-1]).startswith("raise SystemExit("), "a judge says how it ended"


@pytest.mark.parametrize("name", EXERCISES)
@pytest.mark.parametrize("of", ["exercise", "solution"])
def test_what_is_handed_out_needs_numpy_and_ops_alone(name, of):
    text = parts(name)[0] if of == "exercise" else SOLUTIONS[name].read_text(encoding="utf-8")
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Import):
            allowed = [*sys.stdlib_module_names, "numpy"]
            assert all(alias.name in allowed for alias in node.names), ast.unparse(node)
        if isinstance(node, ast.ImportFrom) and node.module not in sys.stdlib_module_names:
            assert ast.unparse(node) == "from minigpt import ops"


@pytest.mark.parametrize("name", BY_THEMSELVES)
def test_a_judge_only_calls_what_is_yours(name):
    """Below the marker, functions of the upper part are called, or given to lines.check, lines.run, gradcheck.check."""
    upper, judge = (ast.parse(part) for part in parts(name))
    yours = {node.name for node in upper.body if isinstance(node, ast.FunctionDef)}
    called = set()
    for node in ast.walk(judge):
        if isinstance(node, ast.Call):
            called.add(node.func)
            if ast.unparse(node.func) in ("lines.check", "lines.run", "gradcheck.check"):
                called.update(node.args[:2])
    for node in ast.walk(judge):
        if isinstance(node, ast.Name) and node.id in yours:
            assert node in called, f"line {node.lineno} of the judge: {node.id} is handed on"


# --- what is handed in -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", named(BY_THEMSELVES))
def test_a_judge_is_happy_with_a_solution(name, tmp_path):
    path = tmp_path / f"{name}.py"
    path.write_text(SOLUTIONS[name].read_text(encoding="utf-8") + "\n\n" + parts(name)[1], encoding="utf-8")
    with pytest.raises(SystemExit) as ended:
        runpy.run_path(str(path), run_name="__main__")
    assert ended.value.code == 0, ended.value.code


@pytest.mark.parametrize("name", named(BY_LIBRARY))
def test_the_library_is_happy_with_a_solution(name):
    said = []
    assert check_file.run(SOLUTIONS[name], say=said.append), "\n".join(said)


class Elsewhere:
    """A reader's function as a judge has it whose reader's part runs in another process: copies of plain values only."""

    def __init__(self, here, there):
        self.here = here  # of the exercise, as it is handed out
        self.there = there  # of what was handed in

    def __call__(self, *args, **kwargs):
        assert plain(args) and plain(kwargs), f"{self.there.__name__} is given more than values"
        made = self.there(*copy.deepcopy(args), **copy.deepcopy(kwargs))
        assert plain(made), f"{self.there.__name__} returns more than values"
        return copy.deepcopy(made)


def plain(value) -> bool:
    """Is this an array, a number, a text, bytes, nothing, or a list, tuple, dict or set of such values?"""
    if type(value) in (list, tuple, set):
        return all(map(plain, value))
    if type(value) is dict:
        return all(type(key) in (str, int, tuple) and plain(item) for key, item in value.items())
    if isinstance(value, np.ndarray | np.generic):
        return not value.dtype.hasobject
    return value is None or type(value) in (bool, int, float, str, bytes)


@pytest.mark.parametrize("name", named(BY_THEMSELVES))
def test_a_judge_is_happy_with_a_solution_that_runs_elsewhere(name, monkeypatch):
    upper, judge = parts(name)
    here = {"__name__": "__main__", "__file__": str(EXERCISES[name])}
    there = {"__name__": "handed_in"}
    exec(compile(upper, EXERCISES[name], "exec"), here)
    exec(compile(SOLUTIONS[name].read_text(encoding="utf-8"), SOLUTIONS[name], "exec"), there)
    for key, value in list(here.items()):
        if isinstance(value, type(parts)) or isinstance(there.get(key), type(named)):
            here[key] = Elsewhere(value, there[key])
        elif not key.startswith("__") and plain(value):
            here[key] = there[key]  # a constant

    check, run, gradients = lines.check, lines.run, gradcheck.check
    monkeypatch.setattr(lines, "check", lambda f, b, *args, **kwargs: check(f.here, b.there, *args, **kwargs))
    monkeypatch.setattr(lines, "run", lambda f, *args, **kwargs: run(f.here, *args, **kwargs))
    monkeypatch.setattr(gradcheck, "check", lambda f, b, *args: gradients(f.there, b.there, *args))
    with pytest.raises(SystemExit) as ended:
        exec(compile(judge, EXERCISES[name], "exec"), here)
    assert ended.value.code == 0, ended.value.code

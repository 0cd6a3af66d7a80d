"""Every exercise has one form, its judge is happy with a solution, here and elsewhere, and none is given away.

A solution (handed_in.py) is what a reader would hand in: the part of lessons/exercises/NAME.py above the line MARKER.
"""

import ast
import copy
import re
import runpy
import sys
from functools import cache
from pathlib import Path

import numpy as np
import pytest
from handed_in import CHANGES, EXERCISES, hand_in, solution
from helpers import each

from minigpt import gradcheck
from minigpt.learn import lines
from minigpt.learn.judging import check_file
from minigpt.learn.lessons import find_lessons

ROOT = Path(__file__).parent.parent
MARKER = "# --- the judge: nothing below is yours ".ljust(120, "-")
BY_LIBRARY = [name for name, path in EXERCISES.items() if "check_file" in path.read_text(encoding="utf-8")]
BY_THEMSELVES = [name for name in EXERCISES if name not in BY_LIBRARY]
SLOW = {"21_rmsnorm", *(f"{lesson}_find_the_bug" for lesson in ("01", "02", "03", "04", "05", "06", "18", "21"))}


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
    assert list(EXERCISES) == list(CHANGES)
    for name in EXERCISES:
        assert code(solution(name)) != code(parts(name)[0]), f"{name} is handed out solved"


def code(text: str) -> list[str]:
    """The statements of a file, without the text at its top."""
    return [ast.dump(node) for node in ast.parse(text).body if not isinstance(node, ast.Expr)]


# --- the form --------------------------------------------------------------------------------------------------------


@each("name", EXERCISES)
def test_one_line_divides_an_exercise(name):
    assert EXERCISES[name].read_text(encoding="utf-8").splitlines().count(MARKER) == 1
    upper, judge = (ast.parse(part) for part in parts(name))
    assert not [node for node in upper.body if isinstance(node, ast.If)], "what runs stands below the marker"
    last = judge.body[-1]
    assert isinstance(last, ast.If) and ast.unparse(last.test) == "__name__ == '__main__'"
    assert ast.unparse(last.body[-1]).startswith("raise SystemExit("), "a judge says how it ended"


@pytest.mark.parametrize("of", ["exercise", "solution"])
@each("name", EXERCISES)
def test_what_is_handed_out_needs_numpy_and_ops_alone(of, name):
    text = parts(name)[0] if of == "exercise" else solution(name)
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Import):
            allowed = [*sys.stdlib_module_names, "numpy"]
            assert all(alias.name in allowed for alias in node.names), ast.unparse(node)
        if isinstance(node, ast.ImportFrom) and node.module not in sys.stdlib_module_names:
            assert ast.unparse(node) == "from minigpt import ops"


@each("name", BY_THEMSELVES)
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
    path.write_text(solution(name) + "\n\n" + parts(name)[1], encoding="utf-8")
    with pytest.raises(SystemExit) as ended:
        runpy.run_path(str(path), run_name="__main__")
    assert ended.value.code == 0, ended.value.code


@pytest.mark.parametrize("name", [name for name in BY_LIBRARY if name not in SLOW])
def test_the_library_is_happy_with_a_solution(name, tmp_path):
    """The same judge is happy with the others in tests/test_learn_check.py."""
    said = []
    assert check_file.run(hand_in(name, tmp_path), say=said.append), "\n".join(said)


class Elsewhere:
    """A reader's function as a judge has it, where it runs in another process: plain values go there and back."""

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
def test_a_judge_is_happy_with_a_solution_that_runs_elsewhere(name, tmp_path, monkeypatch):
    upper, judge = parts(name)
    here = {"__name__": "__main__", "__file__": str(EXERCISES[name])}
    there = {"__name__": "handed_in"}
    exec(compile(upper, EXERCISES[name], "exec"), here)
    exec(compile(solution(name), hand_in(name, tmp_path), "exec"), there)  # lines.check reads the file
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


# --- nothing that is handed out is a solution ------------------------------------------------------------------------

WORK = (ast.BinOp, ast.UnaryOp, ast.BoolOp, ast.Compare, ast.IfExp, ast.Call)
IN_LESSON_06 = (
    "LayerNorm in the form of the library: its lines are the lesson's, and 06_layernorm asks for them once more"
)
SOFTMAX = "e = np.exp(scores - scores.max(axis=-1, keepdims=True))"
IN_TRANSIT = "in_transit = [chunks[r][(r - step) % N].copy() for r in range(N)]"
GIVEN_AWAY = {  # (solution, file): lines of the solution that stand there, and why they may
    ("06_layernorm", "exercises/06_find_the_bug.py"): (["dx_hat = dout * g"], IN_LESSON_06),
    ("06_layernorm", "exercises/21_find_the_bug.py"): (["dx_hat = dout * g"], IN_LESSON_06),
    ("16_gpt2", "exercises/16_find_the_bug.py"): (
        ["dn = dout + dm", "da, dg1, db1 = ops.layernorm_backward(da, c1)", "dx = dn + da"],
        "the second exercise of this lesson is the first one with a wrong word",
    ),
    ("17_weights_and_the_cache", "exercises/17_find_the_bug.py"): (
        ["scores = q @ k.swapaxes(-1, -2) / np.sqrt(q.shape[-1])", SOFTMAX],
        "attention as in lesson 03: what both ask for is the mask between these lines",
    ),
    ("17_weights_and_the_cache", "12_sampling.py"): (
        [SOFTMAX],
        "a softmax",
    ),
    ("23_find_the_bug", "exercises/23_several_workers.py"): (
        [IN_TRANSIT, "here = chunks[(r + 1) % N][(r - step) % N]"],
        "the ring of section 4, right in one exercise and wrong in the other",
    ),
    ("23_find_the_bug", "23_several_workers.py"): (
        [IN_TRANSIT],
        "the ring of section 4",
    ),
    ("27_language_vectors", "exercises/32_three_uses.py"): (["dtable = np.zeros_like(table)"], "zeros to begin with"),
    ("03_attention", "04_heads_and_projections.py"): (
        ["ds = kept.p * (dp - (kept.p * dp).sum(axis=-1, keepdims=True))"],
        "the softmax of lesson 03, whose section 3 derives it",
    ),
    ("04_heads_and_projections", "04_heads_and_projections.py"): (
        ["ds = kept.p * (dp - (kept.p * dp).sum(axis=-1, keepdims=True))"],
        "the softmax of lesson 03, whose section 3 derives it",
    ),
    ("06_rmsnorm", "05_gelu_and_the_mlp.py"): (["dx = dx + 2 * v.x * dsquare"], "the slope of a square"),
}  # fmt: skip


def bare(text: str) -> str:
    """The text without any space, and with one kind of quotes."""
    return "".join(text.split()).replace('"', "'")


def statements(text: str) -> dict[str, int]:
    """The simple statements of some Python, as ast.unparse writes them, and how many operations and calls each has.

    Of a text of several lines, such as a kernel in C, each line that ends with a semicolon is a statement.
    """
    found = {}
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and ";\n" in node.value:
            kernel = (line.strip() for line in node.value.splitlines())
            found.update((line, len(re.findall(r"[-+*/]|\w\(", line))) for line in kernel if line.endswith(";"))
        if isinstance(node, ast.stmt) and not hasattr(node, "body"):
            found[ast.unparse(node)] = sum(isinstance(part, WORK) for part in ast.walk(node))
    return found


@cache
def yours(name: str) -> dict[str, int]:
    """The statements of a solution with an operation or a call, which the exercise has neither as code nor as text."""
    upper = parts(name)[0]
    text, code = bare(upper), statements(upper)
    written = statements(solution(name))
    return {line: work for line, work in written.items() if work and line not in code and bare(line) not in text}


@cache
def handed_out() -> dict[str, str]:
    """What `minigpt lessons` copies, by the name that it has there: text, and code as ast.unparse writes it."""
    found = {}
    for path in sorted(find_lessons().values()):
        if path.suffix in (".py", ".toml", ".md", ".txt"):
            text = path.read_text(encoding="utf-8")
            code = statements(text) if path.suffix == ".py" else []
            told = bare(text.replace("\n# ", "\n"))  # what a lesson tells stands in comments
            name = path.relative_to(ROOT).as_posix().removeprefix("lessons/")
            found[name] = "\n".join([told, *map(bare, code)])
    return found


def least_work(file: str) -> int:
    """How many operations make a line one that gives a solution away: in a lesson, which has its own subject, three."""
    return 1 if file.startswith("exercises/") else 3


@each("name", EXERCISES)
def test_no_line_of_a_solution_is_handed_out(name):
    written = [(line, work, bare(line)) for line, work in yours(name).items()]
    for file, text in handed_out().items():
        shown = [line for line, work, told in written if work >= least_work(file) and told in text]
        allowed, _ = GIVEN_AWAY.get((name, file), ([], ""))
        assert sorted(shown) == sorted(allowed), f"{file} has lines of the solution of {name}"


@each("name", [name for name in EXERCISES if "bug" not in name])
def test_no_lesson_shows_half_of_a_solution(name):
    written = [bare(line) for line in yours(name)]
    for file, text in handed_out().items():
        shown = [line for line in written if line in text]
        assert len(shown) <= len(written) / 2, f"{file}: {shown}"


@each("name", EXERCISES)
def test_no_hint_has_an_expression_of_a_solution(name):
    """Nearly the line is as far as a hint goes: not even without `v.`, and without the name that gets the value."""
    hints = re.sub(r"\b(v|kept)\.", "", handed_out()["exercises/hints.toml"])
    upper = bare(parts(name)[0])
    for line in yours(name):
        value = line.removeprefix("return ")
        if yours(name)[line] >= 2:
            told = re.sub(r"\b(v|kept)\.", "", bare(value.partition(" = ")[2] or value))
            assert told in upper or told not in hints, line

"""What the repository says about an operation: its files, lessons, exercises, mistakes, callers and measurements."""

import ast
import functools
import inspect
import json
import re
import tomllib
from pathlib import Path
from typing import NamedTuple

from course import HERE, LESSONS, ROOT, title_of

from minigpt import ops
from minigpt.learn.cells import cells
from minigpt.learn.museum.pieces import Piece, pieces
from minigpt.ops import cuda, fast, reference
from minigpt.ops.caches import arrays
from minigpt.ops.cases import case, cases
from minigpt.ops.table import table

KERNELS = ROOT / "minigpt" / "ops" / "cuda"
RESULTS = ROOT / "benchmarks" / "results"
PACKAGES = {"reference": reference, "fast": fast, "cuda": cuda}
CALLERS = ("nn", "models", "evaluation", "jobs")  # folders of the package whose code calls operations


class Words(NamedTuple):
    """What formulas.toml says about an operation."""

    title: str
    words: str
    paper: str
    forward: str
    backward: str


@functools.cache
def words() -> dict[str, Words]:
    """{operation: its title, papers and formulas}"""
    text = (HERE / "formulas.toml").read_text(encoding="utf-8")
    return {op: Words(**about) for op, about in tomllib.loads(text).items()}


# --- code ------------------------------------------------------------------------------------------------------------


class Pair(NamedTuple):
    """One implementation of an operation: the text of its parts, and its files, kernels included."""

    forward: str
    backward: str
    cache: str
    beside: str
    file: Path
    kernels: list[Path]


@functools.cache
def pair(op: str, implementation: str) -> Pair | None:
    """The pair of an operation in an implementation; None where it has none of its own."""
    package = PACKAGES[implementation]
    forward = getattr(package, f"{op}_forward", None)
    if forward is None:
        return None
    backward = getattr(package, f"{op}_backward")
    file = Path(inspect.getsourcefile(forward))
    text = file.read_text(encoding="utf-8")
    parts = _definitions(text)
    cache = inspect.get_annotations(backward)["cache"]
    name = cache if isinstance(cache, str) else cache.__name__
    used = _used([f"{op}_forward", f"{op}_backward"], parts)
    beside = [parts[part] for part in parts if part in used and part != name]
    return Pair(
        parts[f"{op}_forward"], parts[f"{op}_backward"], parts.get(name, ""), "\n\n\n".join(beside), file,
        kernels_of(text) if implementation == "cuda" else [],
    )  # fmt: skip


def _definitions(text: str) -> dict[str, str]:
    """The functions, classes and constants at the top of a file: {name: its lines}."""
    lines = text.splitlines()
    found = {}
    for node in ast.parse(text).body:
        source = "\n".join(lines[node.lineno - 1 : node.end_lineno])
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            found[node.name] = source
        elif isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
            found[node.targets[0].id] = source
    return found


def _used(names: list[str], parts: dict[str, str]) -> set[str]:
    """Names of the other parts of the file that these use, those that the used ones use among them."""
    found, left = set(), list(names)
    while left:
        tree = ast.parse(parts[left.pop()])
        inside = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)}
        new = {name for name in inside if name in parts} - found - set(names)
        found |= new
        left += new
    return found


def kernels_of(text: str) -> list[Path]:
    """The .cu files that a Python file launches, and the .cuh files that they include."""
    names = [name for name in re.findall(r'"(\w+)"', text) if (KERNELS / f"{name}.cu").is_file()]
    left = [KERNELS / f"{name}.cu" for name in dict.fromkeys(names)]
    found = []
    while left:
        path = left.pop(0)
        if path in found:
            continue
        found.append(path)
        for name in re.findall(r'#include "(\w+\.cuh)"', path.read_text(encoding="utf-8")):
            left += sorted(KERNELS.glob(name.replace("REAL", "*")))  # REAL: a file for each dtype
    return found


def modules_beside(file: Path) -> list[str]:
    """The modules of the same folder that a file imports, such as "minigpt.ops.cuda.products"."""
    folder = ".".join(file.parent.relative_to(ROOT).parts)
    found = set()
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom) and node.module == folder:
            found |= {f"{folder}.{alias.name}" for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module.startswith(f"{folder}."):
            found.add(node.module)
    return sorted(found)


# --- what is kept ----------------------------------------------------------------------------------------------------


class Kept(NamedTuple):
    """What a cache keeps of one array: its name, its shape as letters and numbers, its bytes in float64."""

    name: str
    shape: tuple[int, ...]
    bytes: int


def kept(op: str, implementation: str) -> tuple[list[Kept], dict[str, tuple[int, ...]]]:
    """What the cache of an implementation keeps for the first case of an operation, and the shapes of its inputs."""
    first = case(op)
    package = PACKAGES[implementation]
    _, cache = first.run(getattr(package, f"{op}_forward"))
    found = [Kept(name, array.shape, array.nbytes) for name, array in arrays(cache).items()]
    given = {name: value.shape for name, value in first.args.items() if hasattr(value, "shape")}
    return found, given


def cache_fields(op: str, implementation: str) -> list[str]:
    """The names of the fields of a cache."""
    backward = getattr(PACKAGES[implementation], f"{op}_backward")
    cache = inspect.get_annotations(backward)["cache"]
    return list(cache._fields)


# --- lessons and exercises -------------------------------------------------------------------------------------------


class Lesson(NamedTuple):
    """A lesson: "05_gelu_and_the_mlp", its title, its code, its text."""

    name: str
    title: str
    code: str
    prose: str

    @property
    def number(self) -> str:
        return self.name[:2]


@functools.cache
def lessons() -> tuple[Lesson, ...]:
    """All lessons, in order."""
    return tuple(_lesson(path) for path in sorted(LESSONS.glob("[0-9][0-9]_*.py")))


def _lesson(path: Path) -> Lesson:
    parts = cells(path)
    code = "\n".join(cell.source for cell in parts if cell.is_code)
    prose = "\n".join(cell.prose for cell in parts if not cell.is_code)
    return Lesson(path.stem, title_of(prose), code, prose)


@functools.cache
def citing(op: str) -> dict[str, list[Lesson]]:
    """The lessons that build this operation, that use it, and, where none builds it, that name it."""
    call = re.compile(rf"\bops\.{op}(_forward|_backward)?\b(?!_)")
    file = f"minigpt/ops/reference/{op}.py"
    found = {"built": [], "used": [], "named": []}
    for lesson in lessons():
        if re.search(rf"^def {op}_forward", lesson.code, re.MULTILINE) or file in lesson.prose:
            found["built"].append(lesson)
        elif call.search(lesson.code) or call.search(lesson.prose):
            found["used"].append(lesson)
        elif len(re.findall(words()[op].words, lesson.prose)) >= 3:
            found["named"].append(lesson)
    if found["built"]:
        found["named"] = []
    return found


def operations_of(lesson: str) -> list[str]:
    """The operations that a lesson, such as "05_gelu_and_the_mlp", builds, uses, or names where none builds it."""
    found = {"built": [], "used": [], "named": []}
    for op in table.docs:
        for how, there in citing(op).items():
            if lesson in [one.name for one in there]:
                found[how].append(op)
    return found["built"] + found["used"] + found["named"]


class Exercise(NamedTuple):
    """An exercise: its file, the first sentence of its text, the number of its lesson."""

    file: str
    title: str
    lesson: str


@functools.cache
def _all_exercises() -> list[tuple[Exercise, str]]:
    """Every exercise, and what a learner writes of its file."""
    found = []
    for path in sorted((LESSONS / "exercises").glob("[0-9][0-9]_*.py")):
        text = path.read_text(encoding="utf-8")
        about = ast.get_docstring(ast.parse(text)) or ""
        first = about.split("\n\n")[0].replace("\n", " ")
        found.append((Exercise(path.name, first, path.name[:2]), text.partition("# --- the judge")[0]))
    return found


@functools.cache
def exercises(op: str) -> tuple[Exercise, ...]:
    """The exercises in which this operation is written, and those whose title names it."""
    written = re.compile(rf"^def {op}_(forward|backward)\b", re.MULTILINE)
    named = re.compile(words()[op].words)
    found = [one for one, mine in _all_exercises() if written.search(mine) or named.search(one.title)]
    return tuple(found)


def mistakes(op: str) -> list[Piece]:
    """The pieces of the museum that get this operation wrong."""
    return [piece for piece in pieces() if piece.op == op]


# --- callers and measurements ----------------------------------------------------------------------------------------


class Caller(NamedTuple):
    """A function or method of the package that calls an operation."""

    module: str
    name: str


@functools.cache
def callers(op: str) -> tuple[Caller, ...]:
    """Who calls an operation, in the package: each class or function at the top of a file once."""
    found = []
    for folder in CALLERS:
        for path in sorted((ROOT / "minigpt" / folder).rglob("*.py")):
            text = path.read_text(encoding="utf-8")
            if f"ops.{op}_forward" not in text:
                continue
            module = ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")
            found += [Caller(module, name) for name in _calling(ast.parse(text), f"{op}_forward")]
    return tuple(found)


def _calling(tree: ast.Module, function: str) -> list[str]:
    found = []
    for node in tree.body:
        if isinstance(node, ast.ClassDef | ast.FunctionDef):
            attributes = [inner.attr for inner in ast.walk(node) if isinstance(inner, ast.Attribute)]
            if function in attributes:
                found.append(node.name)
    return found


@functools.cache
def composites_with(op: str) -> tuple[str, ...]:
    """The composites whose reference calls this operation in one of its cases."""
    return tuple(name for name in reference.COMPOSITES if op in _called_by(name))


@functools.cache
def _called_by(composite: str) -> set[str]:
    """The operations that the cases of a composite call."""
    with ops.using("reference"), ops.tracing() as calls:
        for one in cases(composite):
            one.run(getattr(ops, f"{composite}_forward"))
    return {call.op for call in calls} - {composite}


def recorded(name: str) -> dict[str, dict]:
    """The rows of a recorded benchmark; none where there is no file."""
    path = RESULTS / f"{name}.json"
    return json.loads(path.read_text(encoding="utf-8"))["rows"] if path.is_file() else {}


def measured(op: str) -> dict[str, dict]:
    """What was measured about one operation: its gradient check, and a training step without its fast version."""
    found = {}
    if op in recorded("gradcheck"):
        found["gradcheck"] = recorded("gradcheck")[op]
    for name, row in recorded("effects").items():
        model, without, tricked = name.partition(f" without fast {op}")
        if without and not tricked:
            found[f"effects, {model}"] = row
    return found


def api_label(module: str, name: str = "") -> str:
    """The label of a module, class or function on the pages of the reference."""
    kind = "class-" if name.split(".")[-1][:1].isupper() else ""
    public = "" if name.startswith("_") else kind + name  # what is private has no place of its own
    return "api-" + "-".join(filter(None, (module, public))).replace(".", "-").replace("_", "-").lower()

"""The house keeps its shape: floors, the few files that may import something special, line budgets, docstrings."""

import ast
import graphlib
from pathlib import Path

import pytest

import minigpt

HOME = Path(minigpt.__file__).parent
FILES = sorted(HOME.rglob("*.py"))

FLOORS = [  # from the ground up: a file imports from lower floors only; the files of one package, among themselves
    {"minigpt", "errors", "sections"},
    {"backend", "disk", "key", "examples"},
    {"table", "parallel"},
    {"reference", "fast"},
    {"ops", "tokenizer", "stories", "checkpoint", "sampling", "shapes", "diagnosis", "plot", "labelled", "metrics"},
    {"nn", "gradcheck", "data", "hub", "inputs"},
    {"optim", "language_model"},
    {"gpt1", "gpt2", "lstm", "classifier"},
    {"models", "costs", "check", "scoring"},
    {"info", "run", "heuristics"},
    {"job"},
    {"train", "generate", "finetune", "zeroshot"},
    {"cli"},
    {"__main__"},
]
FLOOR = {unit: floor for floor, units in enumerate(FLOORS) for unit in units}
MATHEMATICS = ("reference", "nn", "gpt1", "gpt2", "optim", "gradcheck")


def name_of(path: Path) -> str:
    """reference/gelu.py -> minigpt.reference.gelu"""
    parts = path.relative_to(HOME).with_suffix("").parts
    return ".".join(("minigpt", *parts)).removesuffix(".__init__")


def unit_of(name: str) -> str:
    """minigpt.reference.gelu -> reference; what floors are made of. The package's own __init__ is "minigpt"."""
    return name.split(".")[1] if "." in name else name


MODULES = {name_of(path): path for path in FILES}


def imports_in(source: str, name: str, is_package: bool = False) -> list[str]:
    """Every module that a file imports, at the top or inside a function, with relative names made absolute."""
    found = []
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            found += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            package = name.split(".") if is_package else name.split(".")[:-1]
            up = package[: len(package) - node.level + 1] if node.level else []
            base = ".".join([*up, *([node.module] if node.module else [])])
            inside = [f"{base}.{alias.name}" for alias in node.names]
            found += [i if i in MODULES else base for i in inside]
    return found


def imports_of(name: str) -> list[str]:
    path = MODULES[name]
    return imports_in(path.read_text(encoding="utf-8"), name, path.name == "__init__.py")


def own(names: list[str]) -> list[str]:
    return [name for name in names if name.split(".")[0] == "minigpt"]


def lines(path: Path) -> int:
    return len(path.read_text(encoding="utf-8").splitlines())


def floor_errors(name: str, imported: list[str]) -> list[str]:
    """What is wrong with the imports of one module."""
    unit = unit_of(name)
    above = [i for i in own(imported) if unit_of(i) != unit and FLOOR[unit_of(i)] >= FLOOR[unit]]
    return [f"{name} imports {i}, which is not on a lower floor" for i in above]


# --- floors ----------------------------------------------------------------------------------------------------------


def test_every_file_has_a_floor():
    missing = sorted({unit_of(name) for name in MODULES} - set(FLOOR))
    assert not missing, f"give these a place in FLOORS: {missing}"


@pytest.mark.parametrize("name", MODULES)
def test_no_file_imports_upward(name):
    assert floor_errors(name, imports_of(name)) == []


def test_no_circles():
    graph = {name: {i for i in own(imports_of(name)) if i != name} for name in MODULES}
    assert len(list(graphlib.TopologicalSorter(graph).static_order())) >= len(MODULES)


def test_the_floor_test_sees_every_kind_of_import():
    for source in (
        "from minigpt import ops",
        "import minigpt.ops",
        "def f():\n    from minigpt.ops import linear_forward",
        "from . import ops",
        "from .ops import names",
        "import os, minigpt.ops as o",
    ):
        assert floor_errors("minigpt.backend", imports_in(source, "minigpt.backend")), source
    assert imports_in("from ..errors import InputError", "minigpt.stories.words") == ["minigpt.errors"]
    assert imports_in("from . import words", "minigpt.stories", is_package=True) == ["minigpt.stories.words"]
    assert not floor_errors("minigpt.nn", imports_in("from minigpt.ops import names\nimport numpy", "minigpt.nn"))


def test_reference_and_fast_do_not_know_each_other_nor_the_face_of_the_table():
    for name in MODULES:
        units = {unit_of(i) for i in own(imports_of(name))}
        if unit_of(name) in ("reference", "fast"):
            assert units <= {"errors", "backend", "key", "table", unit_of(name)}, name


def test_gradcheck_knows_only_functions_and_arrays():
    known = {unit_of(i) for i in own(imports_of("minigpt.gradcheck"))}
    assert known <= {"errors", "backend", "diagnosis"}
    assert {unit_of(i) for i in own(imports_of("minigpt.diagnosis"))} <= {"errors", "backend"}


# --- what only some files may import, and what none may --------------------------------------------------------------


@pytest.mark.parametrize(("module", "homes"), [("cupy", {"minigpt.backend"}), ("matplotlib", {"minigpt.plot"})])
def test_only_one_file_imports(module, homes):
    importers = {name for name in MODULES if any(i.split(".")[0] == module for i in imports_of(name))}
    assert importers == homes


FORBIDDEN = ("pickle", "marshal", "shelve", "dill", "joblib", "torch", "tensorflow", "jax", "transformers")


@pytest.mark.parametrize("name", MODULES)
def test_no_file_imports_pickle_or_another_framework(name):
    assert not {i.split(".")[0] for i in imports_of(name)} & set(FORBIDDEN)


def calls_in(name: str):
    """(function name, call) for every call in a module."""
    for node in ast.walk(ast.parse(MODULES[name].read_text(encoding="utf-8"))):
        if isinstance(node, ast.Call):
            yield node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", ""), node


@pytest.mark.parametrize("name", MODULES)
def test_no_pickle_by_the_back_door_and_no_shell(name):
    for function, call in calls_in(name):
        keywords = {k.arg: getattr(k.value, "value", None) for k in call.keywords}
        assert not keywords.get("allow_pickle") and not keywords.get("shell"), f"{name}, line {call.lineno}"
        assert function not in ("system", "popen"), f"{name}, line {call.lineno}"


@pytest.mark.parametrize("name", MODULES)
def test_every_text_file_is_opened_with_its_encoding_named(name):
    """Windows would take another one."""
    for function, call in calls_in(name):
        owner = getattr(call.func.value, "id", "an object") if isinstance(call.func, ast.Attribute) else None
        opens = function == "open" if owner is None else function in ("open", "read_text", "write_text")
        if not opens or owner in ("os", "disk", "files"):  # os.open gives a number; the others are our own
            continue
        modes = [a.value for a in [*call.args, *(k.value for k in call.keywords if k.arg == "mode")]
                 if isinstance(a, ast.Constant) and isinstance(a.value, str)]  # fmt: skip
        binary = function == "open" and any("b" in mode and len(mode) <= 3 for mode in modes)
        assert binary or any(k.arg == "encoding" for k in call.keywords), f"{name}, line {call.lineno}"


# --- size and words --------------------------------------------------------------------------------------------------


def code_lines(source: str) -> int:
    """Lines that hold code: not those that are empty, a comment, or part of a docstring.

    What explains is not counted, so that nobody saves on it.
    """
    documented = (ast.Module, ast.ClassDef, ast.FunctionDef)
    tree, explaining = ast.parse(source), set()
    for node in ast.walk(tree):
        if isinstance(node, documented) and ast.get_docstring(node) is not None:
            explaining |= set(range(node.body[0].lineno, node.body[0].end_lineno + 1))
    numbered = enumerate(source.splitlines(), 1)
    return sum(bool(line.strip()) and not line.strip().startswith("#") and i not in explaining for i, line in numbered)


def test_line_budgets():
    sizes = {name: code_lines(path.read_text(encoding="utf-8")) for name, path in MODULES.items()}
    mathematics = {name: size for name, size in sizes.items() if unit_of(name) in MATHEMATICS}
    assert sum(mathematics.values()) <= 1500, mathematics
    assert sum(sizes.values()) <= 7500


def test_what_counts_as_a_line_of_code():
    source = '"""A module.\n\nIts story."""\n\n# why\nx = 1  # counts\ndef f():\n    """f"""\n    return """a\nb"""\n'
    assert code_lines(source) == 4


@pytest.mark.parametrize("name", MODULES)
def test_no_file_is_longer_than_400_lines(name):
    assert 0 < lines(MODULES[name]) <= 400


def public(tree: ast.Module):
    """Public functions and classes of a module."""
    return [n for n in tree.body if isinstance(n, (ast.FunctionDef, ast.ClassDef)) and not n.name.startswith("_")]


def is_cache(node) -> bool:
    """A NamedTuple whose field names are all there is to say: what a forward pass saves."""
    return isinstance(node, ast.ClassDef) and node.name.endswith("Cache") and bool(node.bases)


@pytest.mark.parametrize("name", MODULES)
def test_everything_public_has_a_docstring(name):
    tree = ast.parse(MODULES[name].read_text(encoding="utf-8"))
    assert ast.get_docstring(tree) or name == "minigpt.__main__", f"{name} does not say what it is"
    bare = [node.name for node in public(tree) if not ast.get_docstring(node) and not is_cache(node)]
    assert bare == []


@pytest.mark.parametrize("name", MODULES)
def test_nothing_is_left_to_do_and_no_path_is_of_one_machine(name):
    text = MODULES[name].read_text(encoding="utf-8")
    for word in ("TODO", "FIXME", "XXX", "/tmp/", "/home/", "/root/"):
        assert word not in text, word

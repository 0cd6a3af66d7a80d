"""The package keeps its shape: the order of its folders, special imports, budgets of lines and density, docstrings."""

import ast
import functools
import graphlib
import re
from pathlib import Path

import pytest
from helpers import each
from package_files import FILES, HOME, Source, parsed, source_of

FOLDERS = [  # from the top to the ground: a folder imports only from the folders below it
    "cli", "minigpt", "explorer", "learn", "jobs", "evaluation", "models", "data", "tokenizer", "nn", "files",
    "gradcheck", "ops", "device",
]  # fmt: skip
ORDER = ["__main__", *FOLDERS, "plot", "errors"]  # "minigpt" is the package's own __init__, its public face
BOOK = ("minigpt.ops.reference", "minigpt.nn", "minigpt.models.gpt1", "minigpt.models.gpt2", "minigpt.gradcheck")
NO_CHAPTERS = (  # they refuse, explain or judge
    "arguments", "diagnosis", "mistakes", "outputs", "terms", "evidence", "judge", "raised",
)  # fmt: skip
TOOLS = tuple(f"minigpt.gradcheck.{name}" for name in NO_CHAPTERS)
OF_RELATIVES = (
    "rmsnorm", "soft_cross_entropy", "cosine_loss", "gelu_exact", "relu", "silu", "gated_mlp", "rope", "groups",
)  # fmt: skip
SECOND_PART = tuple(f"minigpt.ops.reference.{name}" for name in OF_RELATIVES)


def name_of(path: Path) -> str:
    """reference/gelu.py -> minigpt.ops.reference.gelu"""
    parts = path.relative_to(HOME).with_suffix("").parts
    return ".".join(("minigpt", *parts)).removesuffix(".__init__")


def unit_of(name: str) -> str:
    """minigpt.ops.reference.gelu -> reference; what floors are made of. The package's own __init__ is "minigpt"."""
    return name.split(".")[1] if "." in name else name


MODULES = {name_of(path): path for path in FILES}
of_every_file = each("name", MODULES)


def imports_in(source: Source, name: str, is_package: bool = False) -> list[str]:
    """Every module that a file imports, at the top or inside a function, with relative names made absolute."""
    found = []
    for node in source.nodes:
        if isinstance(node, ast.Import):
            found += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            package = name.split(".") if is_package else name.split(".")[:-1]
            up = package[: len(package) - node.level + 1] if node.level else []
            base = ".".join([*up, *([node.module] if node.module else [])])
            inside = [f"{base}.{alias.name}" for alias in node.names]
            found += [i if i in MODULES else base for i in inside]
    return found


@functools.cache
def imports_of(name: str) -> list[str]:
    path = MODULES[name]
    return imports_in(source_of(path), name, path.name == "__init__.py")


def own(names: list[str]) -> list[str]:
    return [name for name in names if name.split(".")[0] == "minigpt"]


def floor_errors(name: str, imported: list[str]) -> list[str]:
    """What is wrong with the imports of one module."""
    unit = unit_of(name)
    above = [i for i in own(imported) if unit_of(i) != unit and ORDER.index(unit_of(i)) <= ORDER.index(unit)]
    return [f"{name} imports {i}, which does not lie further down" for i in above]


# --- floors ----------------------------------------------------------------------------------------------------------


def test_every_file_has_a_floor():
    missing = sorted({unit_of(name) for name in MODULES} - set(ORDER))
    assert not missing, f"give these a place in FOLDERS: {missing}"


@of_every_file
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
        assert floor_errors("minigpt.errors", imports_in(parsed(source), "minigpt.errors")), source
    upward = parsed("from ...errors import InputError")
    assert imports_in(upward, "minigpt.data.stories.words") == ["minigpt.errors"]
    beside = parsed("from . import words")
    assert imports_in(beside, "minigpt.data.stories", is_package=True) == ["minigpt.data.stories.words"]
    down = parsed("from minigpt.ops import names\nimport numpy")
    assert not floor_errors("minigpt.nn", imports_in(down, "minigpt.nn"))


def test_an_implementation_knows_no_other_and_not_the_face_of_the_table():
    for name in MODULES:
        folder = name.split(".")[2] if name.startswith("minigpt.ops.") else ""
        if folder not in ("reference", "fast", "cuda"):
            continue
        for i in own(imports_of(name)):
            allowed = unit_of(i) in ("device", "errors") or i.startswith(f"minigpt.ops.{folder}")
            shared = tuple(f"minigpt.ops.{name}" for name in ("normal", "random_keys", "masks", "table", "targets"))
            assert allowed or i in shared, f"{name} imports {i}"


def test_the_gradient_checker_knows_only_functions_and_arrays():
    for file in ("arguments", "checker", "results", "rules", "diagnosis", "mistakes", "evidence"):
        name = f"minigpt.gradcheck.{file}"
        assert {unit_of(i) for i in own(imports_of(name))} <= {"errors", "device", "gradcheck"}


# --- what only some files may import, and what none may --------------------------------------------------------------


@pytest.mark.parametrize(("module", "home"), [("cupy", "minigpt.device."), ("matplotlib", "minigpt.plot")])
def test_only_one_place_imports(module, home):
    importers = {name for name in MODULES if any(i.split(".")[0] == module for i in imports_of(name))}
    assert importers and all(name.startswith(home) for name in importers)


FORBIDDEN = ("pickle", "marshal", "shelve", "dill", "joblib", "torch", "tensorflow", "jax", "transformers")


@of_every_file
def test_no_file_imports_pickle_or_another_framework(name):
    assert not {i.split(".")[0] for i in imports_of(name)} & set(FORBIDDEN)


def calls_in(name: str):
    """(function name, call) for every call in a module."""
    for node in source_of(MODULES[name]).nodes:
        if isinstance(node, ast.Call):
            yield node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", ""), node


@of_every_file
def test_no_pickle_by_the_back_door_and_no_shell(name):
    for function, call in calls_in(name):
        keywords = {k.arg: getattr(k.value, "value", None) for k in call.keywords}
        assert not keywords.get("allow_pickle") and not keywords.get("shell"), f"{name}, line {call.lineno}"
        assert function not in ("system", "popen"), f"{name}, line {call.lineno}"


@of_every_file
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


def code_lines(source: Source) -> list[int]:
    """The numbers of the lines that hold code: not those that are empty, a comment, or part of a docstring.

    What explains is not counted, so that there is no reason to save on it.
    """
    documented = (ast.Module, ast.ClassDef, ast.FunctionDef)
    explaining = set()
    for node in source.nodes:
        if isinstance(node, documented) and ast.get_docstring(node) is not None:
            explaining |= set(range(node.body[0].lineno, node.body[0].end_lineno + 1))
    stripped = enumerate(map(str.strip, source.text.splitlines()), 1)
    return [i for i, line in stripped if line and not line.startswith("#") and i not in explaining]


@functools.cache
def size(name: str) -> tuple[int, int]:
    """(code lines, syntax nodes) of a module: names, numbers, operators, calls, statements, ..."""
    source = source_of(MODULES[name])
    return len(code_lines(source)), len(source.nodes)


def sizes(names: list[str]) -> tuple[int, int]:
    """The same of these modules together."""
    lines, nodes = zip(*map(size, names), strict=True)
    return sum(lines), sum(nodes)


IN_THE_BOOK = [name for name in MODULES if name.startswith(BOOK) and name not in (*TOOLS, *SECOND_PART)]
OUTSIDE = [name for name in MODULES if name not in IN_THE_BOOK]


def test_the_book_is_short_enough_to_be_read():
    lines, found = sizes(IN_THE_BOOK)
    assert lines <= 1500
    assert found / lines <= 10, "one step a line, a name for each"
    lines, found = sizes(SECOND_PART)
    assert lines <= 250 and found / lines <= 10, "what only the relatives of GPT compute, written the same way"


def test_density_outside_the_book():
    """Lines are cheap, a reader's attention is not: no cap on lines, but at most 12 syntax nodes in one on average."""
    lines, found = sizes(OUTSIDE)
    assert found / lines <= 12


@of_every_file
def test_no_file_is_dense(name):
    lines, found = sizes([name])
    assert lines <= 30 or found / lines <= 15


ROOT = HOME.parent
OF_OTHER_LANGUAGES = (".js", ".mjs", ".css", ".html", ".cu", ".cuh", ".cc", ".h")
CEILINGS = Path(__file__).parent / "folder_sizes.txt"
ROOM = 300  # lines, or a tenth of the folder, that a ceiling may be above: what is higher holds nothing


def lines_of_code(path: Path) -> int:
    """Lines of a file that are code: of Python as in `code_lines`, of other languages what is no `//` comment."""
    if path.suffix == ".py":
        return len(code_lines(source_of(path)))
    lines = map(str.strip, path.read_text(encoding="utf-8").splitlines())
    return sum(bool(line) and not line.startswith(("//", "/*", "*")) for line in lines)


def folders() -> dict[str, list[int]]:
    """{"minigpt/cli": the lines of each file in it, ...}, of the package, the tests and the lessons."""
    found: dict[str, list[int]] = {}
    for top in ("minigpt", "tests", "lessons"):
        for path in sorted((ROOT / top).rglob("*")):
            inside = path.relative_to(ROOT)
            is_hidden = any(part.startswith(".") for part in inside.parts)
            if path.suffix in (".py", *OF_OTHER_LANGUAGES) and not is_hidden:
                folder = "/".join(inside.parent.parts[:2])
                found.setdefault(folder, []).append(lines_of_code(path))
    return found


def test_each_folder_keeps_below_its_ceiling():
    """The ceilings are tests/folder_sizes.txt. A commit that needs a higher one raises it there, and argues why."""
    ceilings = {}
    for line in CEILINGS.read_text(encoding="utf-8").splitlines():
        folder, most = line.split()
        ceilings[folder] = int(most)
    problems = []
    for folder, lines in folders().items():
        total, most = sum(lines), ceilings.pop(folder, 0)
        print(f"{folder:<20} {total:>6} lines in {len(lines):>3} files, at most {most:>6}")
        if total > most:
            problems.append(f"{folder} has {total} lines, and its ceiling is {most}: argue why, and raise it")
        if most > total + max(ROOM, total // 10):
            problems.append(f"{folder} has {total} lines, and its ceiling is {most}: lower it")
    problems += [f"{folder} has a ceiling, and no files" for folder in ceilings]
    assert not problems, "\n".join(problems)


WHOLE_BODIES = ("elmo", "xlnet")  # they share no body with others


def test_a_member_of_the_family_has_at_most_120_lines():
    """Its file holds what differs from the body that it shares: an encoder, a decoder, or both."""
    family = ROOT / "minigpt" / "models" / "family"
    members = [path for path in family.glob("*.py") if "\nCARD = " in path.read_text(encoding="utf-8")]
    assert len(members) >= 16
    long = {path.stem: lines_of_code(path) for path in members if lines_of_code(path) > 120}
    assert sorted(long) == sorted(WHOLE_BODIES), long


@of_every_file
def test_no_function_has_more_than_45_lines(name):
    source = source_of(MODULES[name])
    lines = code_lines(source)
    for node in source.nodes:
        if isinstance(node, ast.FunctionDef):
            inside = [line for line in lines if node.lineno <= line <= node.end_lineno]
            assert len(inside) <= 45, f"{node.name} in {name}"


def test_what_counts_as_a_line_of_code():
    text = '"""A module.\n\nIts story."""\n\n# why\nx = 1  # counts\ndef f():\n    """f"""\n    return """a\nb"""\n'
    assert code_lines(parsed(text)) == [6, 7, 9, 10]


@of_every_file
def test_no_file_is_longer_than_400_lines(name):
    lines = source_of(MODULES[name]).text.splitlines()
    count = len(lines)
    assert 0 < count <= 400


def public(tree: ast.Module):
    """Public functions and classes of a module."""
    return [n for n in tree.body if isinstance(n, (ast.FunctionDef, ast.ClassDef)) and not n.name.startswith("_")]


def is_cache(node) -> bool:
    """A NamedTuple whose field names are all there is to say: what a forward pass saves."""
    return isinstance(node, ast.ClassDef) and node.name.endswith("Cache") and bool(node.bases)


@of_every_file
def test_everything_public_has_a_docstring(name):
    tree = source_of(MODULES[name]).tree
    assert ast.get_docstring(tree) or name == "minigpt.__main__", f"{name} does not say what it is"
    bare = [node.name for node in public(tree) if not ast.get_docstring(node) and not is_cache(node)]
    assert bare == []


def refusing(name: str):
    """Public functions and methods of a module that raise InputError themselves: (their full name, docstring)."""
    tree = source_of(MODULES[name]).tree
    owners = [tree, *(node for node in public(tree) if isinstance(node, ast.ClassDef))]
    for owner in owners:
        for node in owner.body:
            if not isinstance(node, ast.FunctionDef) or node.name.startswith("_"):
                continue
            raised = [one.exc for one in ast.walk(node) if isinstance(one, ast.Raise)]
            if any(isinstance(e, ast.Call) and getattr(e.func, "id", "") == "InputError" for e in raised):
                path = [name, *([owner.name] if owner is not tree else []), node.name]
                yield ".".join(path), ast.get_docstring(node) or ""


def test_what_raises_an_input_error_names_it():
    found = [(path, text) for name in MODULES for path, text in refusing(name)]
    named = {path for path, text in found if re.search("InputError|ValueError|[Rr]efuse", text)}
    assert len(found) > 90, "the search finds them"
    assert {path for path, _ in found} - named == set(), "say what it raises, and when"


@of_every_file
def test_nothing_is_left_to_do_and_no_path_is_of_one_machine(name):
    text = source_of(MODULES[name]).text
    for word in ("TODO", "FIXME", "XXX", "/tmp/", "/home/", "/root/"):
        assert word not in text, word

"""Every constant that tests make small is where `constants.py` looks for it, and is changed through it alone."""

import ast
from pathlib import Path

import pytest
from constants import PLACES, Constants, home, value
from helpers import each

TESTS = sorted(Path(__file__).parent.glob("*.py"))


@each("name", PLACES)
def test_every_constant_is_a_number_where_the_table_looks_for_it(name):
    module, attribute = home(name)
    assert attribute.isupper() and isinstance(getattr(module, attribute), (int, float))


def test_a_constant_has_its_value_back_after_the_test():
    before = value("fast_tile")
    with pytest.MonkeyPatch.context() as patch:
        Constants(patch).set(fast_tile=before + 1)
        assert value("fast_tile") == before + 1
    assert value("fast_tile") == before


def patched_names(path: Path) -> list[str]:
    """The names that a file of tests gives to `setattr`, of the form `setattr(owner, name, ...)` or by a dotted one."""
    found = []
    text = path.read_text(encoding="utf-8")
    for node in ast.walk(ast.parse(text)) if "setattr" in text else ():
        if isinstance(node, ast.Call) and getattr(node.func, "attr", "") == "setattr":
            strings = [a.value for a in node.args[:2] if isinstance(a, ast.Constant) and isinstance(a.value, str)]
            found += [string.rpartition(".")[2] for string in strings]
    return found


@each("path", TESTS)
def test_no_file_changes_a_constant_by_itself(path):
    known = {place.rpartition(".")[2] for place in PLACES.values()}
    assert not known & set(patched_names(path))

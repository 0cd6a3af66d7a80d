"""The TOML files that stand in place of tables: they are read, shipped, and every word in them means something."""

import re
from pathlib import Path

import pytest

import minigpt
from minigpt.data.stories import tasks, words, world
from minigpt.data.stories.scripts import Script
from minigpt.data.stories.teller import PATTERNS, Slot
from minigpt.errors import InputError
from minigpt.files.disk import read_toml


def test_a_table_is_read_with_its_keys_in_their_order(tmp_path):
    path = tmp_path / "words.toml"
    path.write_text('two = ["a", "é"]  # a comment\n[one]\n"in park" = "x"\n', encoding="utf-8")
    assert list(read_toml(path).items()) == [("two", ["a", "é"]), ("one", {"in park": "x"})]


def test_a_file_that_is_no_toml_is_named(tmp_path):
    path = tmp_path / "words.toml"
    path.write_text('good = 1\nbad = = 2\n', encoding="utf-8")
    with pytest.raises(InputError, match=r"words\.toml is not TOML: .*line 2"):
        read_toml(path)


def test_every_rule_names_needs_roles_and_tables_that_there_are():
    assert len(world.RULES) > 90
    for rule in world.RULES.values():
        for need in rule.needs:
            assert need.name in world.NEEDS
            assert all(word in world.ROLES or word in world.TABLES or word in world.VALUES for word in need.about)
        for change in rule.changes:
            assert change.table in world.TABLES
            assert 1 <= len(change.key) <= 2 and all(role in world.ROLES for role in change.key)
            assert change.value in world.ROLES or change.value in world.VALUES or change.value in ("place", "mood")


def test_every_need_is_used():
    assert {need.name for rule in world.RULES.values() for need in rule.needs} == set(world.NEEDS)


def test_every_slot_of_a_pattern_names_a_role_and_a_form():
    forms = {"", "sub", "said", "asked", "cried", *words.GIRLS[0].forms, *words.BOXES["box"][0].forms, "at", "in"}
    for kind, patterns in PATTERNS.items():
        slots = [part for pattern in patterns for form in pattern for part in form.parts if isinstance(part, Slot)]
        assert all(slot.role in world.ROLES and slot.form in forms for slot in slots), kind


def test_what_is_told_of_words_is_told_of_words_that_there_are():
    assert set(words.LARDER) | {"pear", "lemon", "cookie"} == set(words.FOODS)
    assert set(words.RECIPES) == set(words.DISHES)
    assert {part for parts in words.RECIPES.values() for part in parts} <= set(words.FOODS)
    assert {likes["food"] for likes in words.LIKES.values()} <= set(words.FOODS)
    assert {place for likes in words.LIKES.values() for place in likes["places"]} <= set(words.PLACES)
    assert {place for plan in words.PLANS.values() for place in plan["places"]} <= set(words.PLACES)
    assert set(words.OWN["f"]) | set(words.OWN["m"]) == {*words.TOYS, *words.LIGHT}


def test_the_pairs_of_sentences_draw_from_lists_that_there_are():
    script = Script("any", 3, "train", same_gender=False)
    for kind, lists in tasks.SAME:
        assert kind in PATTERNS or kind.partition(".")[0] in PATTERNS
        assert lists and all(role in world.ROLES and getattr(script, name) for role, name in lists.items())


def test_files_that_are_no_python_are_shipped_with_the_package():
    root = Path(minigpt.__file__).parent
    shipped = (Path(__file__).parent.parent / "setup.cfg").read_text(encoding="utf-8")
    found = [path for suffix in ("txt", "toml", "mplstyle") for path in root.rglob(f"*.{suffix}")]
    assert len(found) >= 6
    for path in found:
        folder, below = path.parent, ""
        if not (folder / "__init__.py").is_file():  # no package: it belongs to the one around it
            folder, below = folder.parent, f"{folder.name}/"
        package = ".".join(folder.relative_to(root.parent).parts)
        assert re.search(rf"^{re.escape(package)} = .*{below}\*\{path.suffix}", shipped, re.M), path

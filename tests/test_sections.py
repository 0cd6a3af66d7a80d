"""The text files that stand in place of tables: what a line means, and that every word of them is understood."""

import re
from pathlib import Path

import minigpt
from minigpt import cli
from minigpt.data.stories import tasks, words, world
from minigpt.data.stories.scripts import Script
from minigpt.files import sections

FILE = """# about all of it

places
    in bedroom: under bed, on shelf
# about what follows
    in kitchen: on table,
        under table,
            beside stove

nothing
people # not a comment
    Tom
"""


def test_headings_lines_and_comments(tmp_path):
    (tmp_path / "words.txt").write_text(FILE, encoding="utf-8")
    assert sections.read(str(tmp_path / "module.py"), "words.txt") == {
        "places": ["in bedroom: under bed, on shelf", "in kitchen: on table, under table, beside stove"],
        "nothing": [],
        "people # not a comment": ["Tom"],
    }


def test_every_word_about_an_argument_is_known_or_in_capitals():
    """What is none of the known words is what help calls the value: a slip must not become one."""
    commands = sections.read(cli.__file__, "commands.txt")
    arguments = [cli._argument(line)[1] for lines in commands.values() for line in lines]
    named = [details["metavar"] for details in arguments if "metavar" in details]
    assert len(named) > 50 and all(re.fullmatch(r"[A-Z]+(=[A-Z]+,\.\.\.)?", name) for name in named)
    titles = {heading.split(": ")[0] for heading, lines in commands.items() if lines}
    assert titles - {"every command"} == set(cli.RUN)


def test_every_rule_names_needs_roles_and_tables_that_there_are():
    for needs, changes in world.RULES.values():
        for need, about in needs:
            assert need in world.NEEDS
            assert all(role in range(1, 6) or role in world.World.TABLES for role in about)
        for table, key, value in changes:
            assert table in world.World.TABLES and all(role in range(1, 6) for role in key)
            assert value in range(1, 6) or value in world.VALUES or value in ("place", "mood")


def test_what_is_said_of_words_is_said_of_words_that_there_are():
    assert set(words.LARDER) | {"pear", "lemon", "cookie"} == set(words.FOODS)
    assert set(words.DISHES) == set(words.DISH)
    assert {part for parts in words.DISHES.values() for part in parts} <= set(words.FOODS)
    assert {food for food, _ in words.LIKES.values()} <= set(words.FOODS)
    assert {place for _, places in words.LIKES.values() for place in places.split()} <= set(words.PLACES)
    assert set(words.OWN["f"]) | set(words.OWN["m"]) == {*words.TOYS, *words.LIGHT}
    script = Script("any", 3, "train", False)
    assert all(pool == "-" or getattr(script, pool) for _, pools in tasks.SAME for pool in pools)


def test_the_text_files_are_shipped_with_the_package():
    root = Path(minigpt.__file__).parent
    shipped = (Path(__file__).parent.parent / "setup.cfg").read_text(encoding="utf-8")
    for path in (*root.rglob("*.txt"), *root.rglob("*.mplstyle")):
        package = ".".join(path.parent.relative_to(root.parent).parts)
        assert re.search(rf"^{re.escape(package)} = .*\*\{path.suffix}", shipped, re.M), path

"""The text files that stand in place of tables: what a line means, and that every word of them is understood."""

import re

from minigpt import cli
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

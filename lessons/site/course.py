"""What all pages need of the course: where it is, its words in both languages, and what a lesson says of itself."""

import json
import re
import tomllib
from pathlib import Path
from typing import NamedTuple

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent
LESSONS = ROOT / "lessons"
WORDS = tomllib.loads((HERE / "words.toml").read_text(encoding="utf-8"))
PARTS = (0, 9, 15, 20, 25)  # the first lesson of each part; their titles are in words.toml
TITLE = re.compile(r"^(?:# )?# (?:Lesson|레슨) \d\d: (.+)$", re.MULTILINE)  # in a script, or in Markdown
READING = re.compile(
    r"^(?:# )?Reading: (?:(\d+) minutes for the core, )?(\d+) minutes(?: for all of it)?\. Running: ([^.;(]+)",
    re.MULTILINE,
)
RUNNING = re.compile(r"(\d+) to (\d+) seconds")  # on a quick machine, and on a slow one


class Times(NamedTuple):
    """What a lesson says: minutes to read its core and all of it; seconds to run it, on a quick machine and a slow one.

    Where it has no deeper parts, its core is all of it.
    """

    core: int
    reading: int
    least: int
    most: int


def title_of(text: str) -> str:
    """The title in the text of a lesson, English or Korean: "Attention, or how a word looks back".

    It begins with a capital letter, as headings of pages do. Raises AttributeError where there is no title.
    """
    title = TITLE.search(text).group(1)
    return title[0].upper() + title[1:]


def times_of(text: str) -> Times:
    """The times in the text of a lesson. Raises AttributeError where it says none."""
    core, reading, running = READING.search(text).groups()
    least, most = RUNNING.fullmatch(running.strip()).groups()
    return Times(int(core or reading), int(reading), int(least), int(most))


def by_part(lessons: list, number_of) -> list[tuple[int, list]]:
    """(index of the part, its lessons) for each part of the course that has one of these lessons.

    number_of: gives the number of a lesson, such as 3.
    """
    found = []
    for part, (first, end) in enumerate(zip(PARTS, (*PARTS[1:], 100), strict=True)):
        there = [lesson for lesson in lessons if first <= number_of(lesson) < end]
        if there:
            found.append((part, there))
    return found


def progress(language: str) -> dict[str, str]:
    """Attributes of the script that shows which lessons were read: its words, and how many lessons there are."""
    words = json.dumps(WORDS[language]["progress"], ensure_ascii=False)
    return {"data-words": words, "data-lessons": str(len([*LESSONS.glob("[0-9][0-9]_*.py")]))}

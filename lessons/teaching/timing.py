"""Write the timing of each lesson into its page for teachers, and the reading times and sums into the plans.

A line about a figure that the lesson does not save any more goes away.

    python lessons/teaching/timing.py            writes what has changed
    python lessons/teaching/timing.py --check    changes nothing; exit status 1 where something is out of date

The measure is that of `minigpt.learn.cells`: 130 words of prose and 8 lines of code a minute, and half a minute for
what a cell of code shows.
"""

import re
import sys
from pathlib import Path
from typing import NamedTuple

from minigpt.learn.cells import WORDS, cells, deeper_parts, minutes_of
from minigpt.learn.classroom.course import Lesson, lessons

HERE = Path(__file__).resolve().parent
PLANS = ("twelve_weeks.md", "five_days.md")
BLOCK = re.compile(r"<!-- timing -->\n.*?<!-- end -->\n", re.DOTALL)
SAVED = re.compile(r"plot\.save\(\s*[^,]+,\s*\"(\w+\.png)\"")
FIGURE = re.compile(r"^- `(\d\d_\w+\.png)`.*\n(?:  .*\n)*", re.MULTILINE)
SECTION = re.compile(r"^## (\d+\. .*)$", re.MULTILINE)


class Section(NamedTuple):
    """A section of a lesson: "1. Why: an id is not a quantity", and the minutes to read its core and what is deeper."""

    title: str
    core: float
    deeper: float


def sections(path: Path) -> list[Section]:
    """The sections of a lesson; the page before the first one counts as a part of it."""
    found = cells(path)
    parts = deeper_parts(found)
    in_deeper = {number for part in parts for number in part}
    titles: list[str] = []
    spent: dict[tuple[str, bool], float] = {}
    for number, cell in enumerate(found):
        is_deeper = number in in_deeper
        if cell.is_code:
            pieces = [("", minutes_of(cell))]
        else:
            opening, *rest = SECTION.split(cell.prose)
            pieces = [("", len(opening.split()) / WORDS)]
            for title, text in zip(rest[::2], rest[1::2], strict=True):
                pieces.append((title, len(f"## {title} {text}".split()) / WORDS))
        for title, minutes in pieces:
            titles += [title] if title else []
            key = (titles[-1] if titles else "", is_deeper)
            spent[key] = spent.get(key, 0.0) + minutes
    before = spent.get(("", False), 0.0)
    spent[titles[0], False] = spent.get((titles[0], False), 0.0) + before
    return [Section(title, spent.get((title, False), 0.0), spent.get((title, True), 0.0)) for title in titles]


def whole_minutes(parts: list[float]) -> list[int]:
    """Each part as a whole number, so that their sum is the rounded sum: the largest fractions are rounded up."""
    whole = [int(part) for part in parts]
    missing = round(sum(parts)) - sum(whole)
    by_fraction = sorted(range(len(parts)), key=lambda i: whole[i] - parts[i])
    for i in by_fraction[:missing]:
        whole[i] += 1
    return whole


def block(lesson: Lesson) -> str:
    """The lines between the two marks of a page: a table of the sections, and the exercises."""
    found = sections(lesson.path)
    core = whole_minutes([section.core for section in found])
    deeper = whole_minutes([section.deeper for section in found])
    lines = ["<!-- timing -->", "| section | core | deeper |", "|---|---|---|"]
    for section, *spent in zip(found, core, deeper, strict=True):
        lines.append(f"| {section.title} | {spent[0]} | {spent[1]} |")
    said = f"the lesson says {lesson.core} for the core, {lesson.minutes} for all"
    lines.append(f"| to read it ({said}) | {sum(core)} | {sum(deeper)} |")
    lines += ["", _exercises(lesson), "<!-- end -->", ""]
    return "\n".join(lines)


def _exercises(lesson: Lesson) -> str:
    judged = [f"{one.number} `{one.file}`" for one in lesson.judged]
    questions = [str(one.number) for one in lesson.exercises if one.is_open]
    text = "Exercises with a judge: " + ", ".join(judged) + "."
    return text + (f" Open questions: {', '.join(questions)}." if questions else "")


def with_timing(page: str, lesson: Lesson) -> str:
    """A page with its block made new. Raises ValueError where the two marks are missing."""
    if not BLOCK.search(page):
        raise ValueError(f"the page of lesson {lesson.number} has no lines <!-- timing --> and <!-- end -->")
    return BLOCK.sub(lambda _: block(lesson), page)


def with_figures(page: str, lesson: Lesson) -> str:
    """A page without the lines about figures that its lesson does not save."""
    saved = SAVED.findall(lesson.path.read_text(encoding="utf-8"))
    return FIGURE.sub(lambda line: line[0] if line[1] in saved else "", page)


def with_sums(plan: str) -> str:
    """A plan whose tables have the reading times of the lessons, and right sums.

    A row `| 03 attention | 25 | … |` begins with the number of a lesson; its second cell is the time to read its core.
    A row that begins with `sum` has the sums of its own table, and one that begins with `all` those of all tables
    before it.
    """
    known = lessons()
    lines = []
    own: list[list[int]] = []  # the rows of this table
    sums: list[list[int]] = []  # of the tables before
    for line in plan.splitlines():
        first, *others = [cell.strip() for cell in line.strip("|").split("|")]
        if line.startswith("|") and first[:2] in known:
            own.append([known[first[:2]].core, *map(int, others[1:])])
            line = _row(first, own[-1])
        elif line.startswith("| sum"):
            sums.append([sum(column) for column in zip(*own, strict=True)])
            own = []
            line = _row(first, sums[-1])
        elif line.startswith("| all"):
            line = _row(first, [sum(column) for column in zip(*sums, strict=True)])
        lines.append(line)
    return "\n".join(lines) + "\n"


def _row(first: str, numbers: list[int]) -> str:
    return "| " + " | ".join([first, *map(str, numbers)]) + " |"


def out_of_date() -> dict[Path, str]:
    """{a file that is not as it must be: its new text}."""
    wanted = {}
    for number, lesson in lessons().items():
        path = HERE / f"{number}.md"
        text = path.read_text(encoding="utf-8")
        wanted[path] = (text, with_figures(with_timing(text, lesson), lesson))
    for name in PLANS:
        text = (HERE / name).read_text(encoding="utf-8")
        wanted[HERE / name] = (text, with_sums(text))
    return {path: new for path, (old, new) in wanted.items() if new != old}


def main(arguments: list[str]) -> int:
    """Write, or check; return the exit status."""
    if arguments not in ([], ["--check"]):
        print("usage: python lessons/teaching/timing.py [--check]", file=sys.stderr)
        return 2
    changed = out_of_date()
    for path, text in changed.items():
        if not arguments:
            path.write_text(text, encoding="utf-8", newline="\n")
        print(f"{path.name}: {'is out of date' if arguments else 'written'}")
    return 1 if changed and arguments else 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))

"""A lesson cut into its cells: `# %% [markdown]` begins one of prose, `# %%` one of code.

A lesson has a core, and deeper parts that can be left out. A deeper part begins with a cell of prose whose marker says
so, `# %% [markdown] tags=["deeper"]`, and whose first line is a heading. It is a whole section: it ends where the next
cell begins with a heading of the same level, or of a higher one.

Before a cell of code the reader may be asked for a guess, in a paragraph that begins with **Guess:**. The answer is a
cell of prose right after that code, whose marker is `# %% [markdown] tags=["answer"]`.

A gap is a cell of code in which one line says `return ...`, judged below it by `gap.judge`. Right after it stands an
answer too, which begins with what belongs in the place of the dots, between backquotes.

A cell of code that only draws has the marker `# %% tags=["hide-input"]`: a reader looks at its picture alone.
"""

import re
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

from minigpt.errors import InputError

MARKER = "# %%"
DEEPER = 'tags=["deeper"]'
ANSWER = 'tags=["answer"]'
DRAWING = 'tags=["hide-input"]'
OPEN, JUDGED = "return ...", "gap.judge("
FILLING = re.compile(r"`([^`\n]+)`")
HEADING = re.compile(r"(#+) (.+)")
WORDS = 130  # of prose, read in a minute
LINES = 8  # of code, read in a minute
SHOWN = 0.5  # minutes to look at what a cell of code shows


class Cell(NamedTuple):
    """One cell: the line of the file at which it begins, is it code, its lines without the marker, and does the marker
    say that a deeper part begins here, that this is the answer to a guess, or that it only draws?
    """

    line: int
    is_code: bool
    lines: list[str]
    begins_deeper: bool = False
    is_answer: bool = False
    only_draws: bool = False

    @property
    def lines_to_read(self) -> int:
        """How many lines a reader reads: those that are not empty, and none of a cell that only draws."""
        return 0 if self.only_draws else sum(1 for line in self.lines if line.strip())

    @property
    def has_gap(self) -> bool:
        """Is there a line that the reader writes?"""
        return self.is_code and JUDGED in self.source

    def filled(self, answer: "Cell") -> str:
        """The source of a cell with a gap, with its line as the answer below it has it.

        Raises InputError where there is not one gap, or the answer does not begin with code.
        """
        filling = FILLING.match(answer.prose)
        if self.source.count(OPEN) != 1 or not filling:
            raise InputError(f"the cell at line {self.line} is no gap with its answer: see minigpt/learn/cells.py")
        return self.source.replace(OPEN, f"return {filling[1]}")

    @property
    def source(self) -> str:
        """The lines as they stand in the file."""
        return "\n".join(self.lines)

    @property
    def prose(self) -> str:
        """The text of a cell of prose, without the signs of comment."""
        return re.sub(r"^# ?", "", self.source, flags=re.MULTILINE)

    @property
    def heading(self) -> re.Match | None:
        """The heading with which a cell of prose begins: its signs, and its words."""
        return None if self.is_code else HEADING.match(self.prose)

    @property
    def level(self) -> int:
        """The level of that heading: 2 for `## 1. Why`; 0 without a heading."""
        return len(self.heading[1]) if self.heading else 0

    @property
    def title(self) -> str:
        """The words of that heading; "" without one."""
        return self.heading[2] if self.heading else ""


def cells(path: Path) -> list[Cell]:
    """The cells of a lesson in order, without empty lines at their ends.

    Raises InputError for a file without cells, and for a deeper part that begins without a heading.
    """
    found: list[Cell] = []
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), start=1):
        if line.startswith(MARKER):
            is_code = "[markdown]" not in line
            found.append(Cell(number + 1, is_code, [], DEEPER in line, ANSWER in line, DRAWING in line))
        elif found:
            found[-1].lines.append(line)
    if not found:
        raise InputError(f"{path} has no cells: a lesson is a Python file with lines that begin with {MARKER}")
    for cell in found:
        while cell.lines and not cell.lines[-1].strip():
            cell.lines.pop()
        if cell.begins_deeper and not cell.level:
            raise InputError(f"{path}:{cell.line}: a deeper part begins with a heading, in a cell of prose")
    return found


def deeper_parts(found: list[Cell]) -> list[range]:
    """The deeper parts of a lesson: for each the numbers of its cells, counted from 0; the first has its heading."""
    parts: list[range] = []
    for number, cell in enumerate(found):
        is_inside = parts and number < parts[-1].stop
        if cell.begins_deeper and not is_inside:
            later = range(number + 1, len(found))
            ends = [other for other in later if 0 < found[other].level <= cell.level]
            parts.append(range(number, ends[0] if ends else len(found)))
    return parts


def core(found: list[Cell]) -> list[Cell]:
    """The cells of a lesson without its deeper parts."""
    left_out = {number for part in deeper_parts(found) for number in part}
    return [cell for number, cell in enumerate(found) if number not in left_out]


def minutes(found: Iterable[Cell]) -> int:
    """The minutes to read these cells, rounded."""
    return round(sum(map(minutes_of, found)))


def minutes_of(cell: Cell) -> float:
    """The minutes to read a cell: its words, or its code and what it shows; none for a gap, which is written."""
    if cell.has_gap:
        return 0
    if cell.is_code:
        return cell.lines_to_read / LINES + SHOWN
    return len(cell.prose.split()) / WORDS

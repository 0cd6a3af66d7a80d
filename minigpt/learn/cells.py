"""A lesson cut into its cells: `# %% [markdown]` begins one of prose, `# %%` one of code."""

import re
from pathlib import Path
from typing import NamedTuple

from minigpt.errors import InputError

MARKER = "# %%"


class Cell(NamedTuple):
    """One cell: the line of the file at which it begins, is it code, and its lines without the marker."""

    line: int
    is_code: bool
    lines: list[str]

    @property
    def source(self) -> str:
        """The lines as they stand in the file."""
        return "\n".join(self.lines)

    @property
    def prose(self) -> str:
        """The text of a cell of prose, without the signs of comment."""
        return re.sub(r"^# ?", "", self.source, flags=re.MULTILINE)


def cells(path: Path) -> list[Cell]:
    """The cells of a lesson in order, without empty lines at their ends. Raises InputError for a file without cells."""
    found: list[Cell] = []
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), start=1):
        if line.startswith(MARKER):
            found.append(Cell(number + 1, "[markdown]" not in line, []))
        elif found:
            found[-1].lines.append(line)
    if not found:
        raise InputError(f"{path} has no cells: a lesson is a Python file with lines that begin with {MARKER}")
    for cell in found:
        while cell.lines and not cell.lines[-1].strip():
            cell.lines.pop()
    return found

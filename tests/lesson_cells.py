"""A lesson as the tests see it: its cells, each prose or code, and a way to run them one by one."""

import contextlib
import io
import linecache
import re
import sys
import time
from pathlib import Path
from typing import NamedTuple

from minigpt import plot


class Cell(NamedTuple):
    """One cell: the line at which it begins, is it code, and its lines without the marker."""

    line: int
    is_code: bool
    lines: list[str]

    @property
    def source(self) -> str:
        return "\n".join(self.lines)

    @property
    def prose(self) -> str:
        """The text of a cell of prose, without the signs of comment."""
        return "\n".join(line.removeprefix("#").removeprefix(" ") for line in self.lines)


def cells(path: Path) -> list[Cell]:
    """The cells of a lesson, in order, without empty lines around them."""
    found = []
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), start=1):
        if re.match(r"# %%", line):
            found.append(Cell(number + 1, "[markdown]" not in line, []))
        else:
            found[-1].lines.append(line)
    for cell in found:
        while cell.lines and not cell.lines[-1].strip():
            cell.lines.pop()
    return found


class Ran(NamedTuple):
    """What a cell did: what it printed, how many pictures it saved, and how long it took."""

    printed: str
    pictures: int
    seconds: float


class Session:
    """Runs the cells of a lesson in one namespace, in any order, as a notebook does; pictures go to a folder."""

    def __init__(self, path: Path, pictures: Path, monkeypatch):
        self.path = path
        self.saved = []
        self.names = {"__name__": "__main__", "__file__": str(path)}
        monkeypatch.setattr(sys, "path", [str(path.parent), *sys.path])
        write = plot.save

        def save(figure, name, folder=None):
            self.saved.append(name)
            return write(figure, name, pictures)

        monkeypatch.setattr(plot, "save", save)

    def run(self, cell: Cell) -> Ran:
        """Run a cell. An error names the lesson and the line."""
        name = f"{self.path.name}, the cell at line {cell.line}"
        linecache.cache[name] = (len(cell.source), None, [line + "\n" for line in cell.lines], name)
        before = len(self.saved)
        output = io.StringIO()
        started = time.perf_counter()
        with contextlib.redirect_stdout(output):
            exec(compile(cell.source, name, "exec"), self.names)
        return Ran(output.getvalue(), len(self.saved) - before, time.perf_counter() - started)

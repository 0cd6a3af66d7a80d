"""A lesson as the tests run it: cell by cell, in any order."""

import contextlib
import io
import linecache
import sys
import time
from pathlib import Path
from typing import NamedTuple

from minigpt import plot
from minigpt.learn.cells import Cell


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

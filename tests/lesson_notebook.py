"""A lesson as a notebook: its cells run in a kernel, in any order and as often as a test wants."""

import contextlib
import time
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest


class Ran(NamedTuple):
    """What a cell did: what it printed, how many pictures it showed, and how many seconds it took."""

    printed: str
    pictures: int
    seconds: float


class Notebook:
    """The cells of a lesson, in a kernel that has started."""

    def __init__(self, client):
        self.client = client
        self.cells = [number for number, cell in enumerate(client.nb.cells) if cell.cell_type == "code"]

    def run(self, number: int) -> Ran:
        """Run this cell. An error in it is an error here, with its traceback."""
        started = time.perf_counter()
        cell = self.client.execute_cell(self.client.nb.cells[number], number)
        seconds = time.perf_counter() - started
        streams = [output for output in cell.outputs if output.output_type == "stream"]
        printed = [output.text for output in streams if output.name == "stdout"]  # not warnings of a library
        shown = [name for output in cell.outputs for name in output.get("data", {})]
        return Ran("".join(printed), shown.count("image/png"), seconds)

    def source(self, number: int) -> str:
        """The first line of this cell, to name it by."""
        return self.client.nb.cells[number].source.splitlines()[0]


@contextlib.contextmanager
def notebook(path: Path) -> Iterator[Notebook]:
    """The lesson in this file, opened by jupytext, with a kernel of its own, in the folder of the lessons."""
    jupytext = pytest.importorskip("jupytext")
    nbclient = pytest.importorskip("nbclient")
    read = jupytext.read(path, fmt="py:percent")
    client = nbclient.NotebookClient(read, timeout=900, resources={"metadata": {"path": str(path.parent)}})
    with client.setup_kernel():
        yield Notebook(client)

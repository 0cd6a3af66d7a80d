"""The file of finished columns: a suite that was stopped goes on from it, and its table is made from it."""

from pathlib import Path
from typing import Any

from minigpt.errors import InputError
from minigpt.evaluation.report import shown
from minigpt.files.disk import finite, read_json, write_json

WIDTHS = (20, 32, 10, 26, 15, 7)  # of the columns of the table
INSTEAD = "give the same to go on with it, or the name of another file"


class Kept:
    """The finished columns of a suite, in a file.

    about: what all of them share, the suite, the model and the limit. columns: {name: {"files", "source", "seconds",
    "numbers", "measures", "notes"}}. A number has its "name", its "measure", "paper" and "size", what is printed and of
    which model, and "value", "low" and "high", ours in the paper's unit, of "n" items. null stands for infinity, and,
    where "n" is 0, for a number that was not measured.
    """

    def __init__(self, path: Path, about: dict[str, Any]):
        """Read what the file has, if it is there. Raises InputError for one of another suite, model or limit."""
        self.path = path
        self.about = about
        self.columns: dict[str, dict[str, Any]] = {}
        if not path.exists():
            return
        before = read_json(path)
        self.columns = before.pop("columns", None)
        if not isinstance(self.columns, dict) or set(before) != set(about):
            raise InputError(f"{path} is there already, and no suite has written it: {INSTEAD}")
        for name, value in finite(about).items():
            if name != "model" and before[name] != value:  # a model may be moved: its weights tell
                has = f"{name} {before[name]}, this command says {value}"
                raise InputError(f"{path} holds the columns of another command ({has}): {INSTEAD}")

    def add(self, name: str, column: dict[str, Any]) -> None:
        """Keep a finished column, on disk too. Raises InputError where it cannot be written."""
        self.columns[name] = finite(column)
        write_json(self.path, finite(self.about) | {"columns": self.columns})

    def __str__(self) -> str:
        """A table of the numbers, ours and the paper's."""
        lines = [_row("", "measure", "ours", "95 % interval", "the paper's", "seconds")]
        for column in self.columns.values():
            for number in column["numbers"]:
                lines.append(_row(number["name"], number["measure"], *_cells(number), f"{column['seconds']:.0f}"))
        return "\n".join(lines)


def _cells(number: dict[str, Any]) -> tuple[str, str, str]:
    """A number, its interval, and that of the paper, as they are shown."""
    paper = "-" if number["paper"] is None else f"{number['paper']:g} ({number['size']})"
    if number["n"] == 0:
        return "-", "", paper
    value, low, high = ("inf" if number[key] is None else shown(number[key]) for key in ("value", "low", "high"))
    return value, f"{low} to {high}", paper


def _row(*cells: str) -> str:
    padded = [cell.ljust(width) for cell, width in zip(cells, WIDTHS, strict=True)]
    return " ".join(padded).rstrip()

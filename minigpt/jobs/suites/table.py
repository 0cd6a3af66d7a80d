"""The suites and their columns, as `columns.toml` tells them, and which of their files are there."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from minigpt.data.published.layouts import LAYOUTS
from minigpt.errors import InputError
from minigpt.files.disk import read_toml

Files = dict[str, Any]  # {option: path, or a list of paths}
TABLE = read_toml(Path(__file__).with_name("columns.toml"))


class Number(NamedTuple):
    """A number of a paper. paper: {size of the model: what is printed}; the other fields as in `columns.toml`."""

    name: str
    measure: str
    paper: Mapping[str, float]
    times: float = 1.0

    def printed(self, size: str) -> tuple[str, float] | None:
        """(a size, its number): of this size, or else of the first that the paper has; None where it has none."""
        if size in self.paper:
            return size, self.paper[size]
        return next(iter(self.paper.items()), None)


class Column(NamedTuple):
    """One run of a job; the fields are those of `columns.toml`."""

    name: str
    source: str
    options: Mapping[str, Any]
    files: Mapping[str, Sequence[str | list[str]]]
    numbers: Sequence[Number]
    get: str

    def found_in(self, folder: Path) -> Files | None:
        """{option: path, or several} of its files in a folder, or below it; None where one is missing."""
        for names in zip(*self.files.values(), strict=True):
            found: Files = {}
            for option, name in zip(self.files, names, strict=True):
                paths = [str(path) for one in several(name) for path in sorted(folder.rglob(one))[:1]]
                if len(paths) == len(several(name)):
                    found[option] = paths[0] if isinstance(name, str) else paths
            if len(found) == len(self.files):
                return found
        return None

    @property
    def wanted(self) -> str:
        """What it needs, and where that is, in words."""
        ways = []
        for names in zip(*self.files.values(), strict=True):
            ways.append(" with ".join(one for name in names for one in several(name)))
        return f"{' or '.join(ways)}, from {self.get}"


def several(name: str | list[str]) -> list[str]:
    """The names of the files of an option: one, or those that it is given together."""
    return [name] if isinstance(name, str) else name


class Suite(NamedTuple):
    """A table of a paper."""

    name: str
    about: str
    columns: Sequence[Column]


class Look(NamedTuple):
    """Which columns of a suite have their files, {name: {option: path}}, and which have not."""

    there: dict[str, Files]
    missing: list[Column]


def names(job: str) -> list[str]:
    """The suites of a job, "eval" or "finetune"."""
    return list(TABLE[job])


def check(options: Any, job: str, of_columns: Sequence[str]) -> None:
    """Raises InputError for options with a suite and no data, or data and no suite; or with one that columns have.

    options: those of a job. of_columns: the names of the options that each column has of its own.
    """
    if options.suite is None:
        if options.data is not None:
            known = ", ".join(names(job))
            raise InputError(f"--data {options.data} belongs to a suite: choose one with --suite, {known}")
        return
    if options.data is None:
        raise InputError(f"--suite {options.suite} needs a folder with its files: give --data FOLDER")
    for name in of_columns:
        if getattr(options, name) is not None:
            given = f"--{name}" if job == "finetune" else getattr(options, name)
            raise InputError(f"the columns of --suite {options.suite} have {name} of their own: leave {given} out")


def suite(job: str, name: str) -> Suite:
    """The suite of this name, one of `names(job)`."""
    entry = TABLE[job][name]
    return Suite(name, entry["about"], [_column(one) for one in entry["columns"]])


def _column(name: str) -> Column:
    entry = TABLE["columns"][name]
    options = entry["options"]
    get = entry.get("get") or LAYOUTS[options.get("layout", options["task"])].source
    numbers = [Number(**number) for number in entry["numbers"]]
    return Column(name, entry["source"], options, entry["files"], numbers, get)


def look(wanted: Suite, folder: Path) -> Look:
    """Look for the files of a suite in a folder. Raises InputError where it is none, or none of the files is there."""
    if not folder.is_dir():
        raise InputError(f"--data {folder} is not a folder: give the one that holds the published files")
    found = {column.name: column.found_in(folder) for column in wanted.columns}
    there = {name: files for name, files in found.items() if files is not None}
    missing = [column for column in wanted.columns if column.name not in there]
    if not there:
        each = "; ".join(column.wanted for column in missing)
        what = f"--data {folder} holds none of the files of {wanted.name}"
        raise InputError(f"{what}: give a folder with one of them, or more: {each}")
    return Look(there, missing)


def size_of(config: Any) -> str:
    """What the papers call a model of this many layers and this width; "" for another one."""
    for size, shape in TABLE["sizes"].items():
        if (getattr(config, "n_layer", 0), getattr(config, "n_embd", 0)) == (shape["layers"], shape["width"]):
            return size
    return ""

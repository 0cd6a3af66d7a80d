"""What a run leaves on disk: a table, a picture, and the one file from which it goes on.

That file is the first to be written. It holds all that is needed to write the others again, so that a run which is
killed at any moment goes on. A folder without it holds no run: what lies there belongs to somebody else.
"""

import csv
import json
import shutil
import tempfile
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from minigpt import tokenizer
from minigpt.device.arrays import to_numpy
from minigpt.errors import InputError
from minigpt.files import checkpoint, disk
from minigpt.files.checkpoint import RESUME
from minigpt.files.tensors import read_header
from minigpt.jobs import run_state
from minigpt.models.language_model import LanguageModel
from minigpt.nn.optim import Optimizer
from minigpt.tokenizer import Tokenizer

COLUMNS = ("step", "train_loss", "val_loss", "lr", "tokens_per_second")
LOSSES, PICTURE = "loss.csv", "loss.png"
FILE = "file."  # how the names of tensors begin that hold the bytes of a small file


class Kind(NamedTuple):
    """What the runs of a command leave.

    key: where their state stands in the metadata of the resume file. state: what it must hold. files: further names
    that mark a folder as in use.
    """

    command: str
    key: str
    table: str
    columns: tuple[str, ...]
    state: tuple[str, ...]
    files: tuple[str, ...] = ()


PRETRAINING = Kind(
    command="minigpt train",
    key="run",
    table=LOSSES,
    columns=COLUMNS,
    state=("step", "best", "options", "config", "text"),
)


class Run:
    """A run's folder. `Run.start` finds an empty one, which the first `save` takes; `Run.load` one to go on from.

    writes: of several processes only one writes what all of them know. belongings: the small files of the run, by name.
    kept: the step at which it was last saved, or None. The caller holds the lock of the folder (`minigpt.files.lock`).
    """

    def __init__(self, folder: str | Path, writes: bool = True, kind: Kind = PRETRAINING):
        self.folder = Path(folder)
        self.writes = writes
        self.kind = kind
        self.claimed = False
        self.kept: int | None = None
        self.rows: list[dict] = []
        self.belongings: dict[str, bytes] = {}

    @classmethod
    def start(cls, folder: str | Path, kind: Kind = PRETRAINING) -> "Run":
        """A new run. Raises InputError where the folder already holds a model or a run: nothing is overwritten."""
        run = cls(folder, kind=kind)
        names = [RESUME, checkpoint.WEIGHTS, checkpoint.CONFIG, kind.table, *kind.files]
        if _is_empty(run.folder / kind.table):  # a killed start of an earlier version; `bring` compares the others
            names.remove(kind.table)
        else:
            names += tokenizer.FILES
        refuse_occupied(run.folder, names)
        return run

    def bring(self, text: Tokenizer) -> None:
        """The files of this tokenizer belong to the run. Raises InputError where others of their names are there."""
        self.belongings = files_of(text, self.folder)
        refuse_others(self.folder, self.belongings)

    @classmethod
    def load(
        cls, folder: str | Path, writes: bool = True, kind: Kind = PRETRAINING
    ) -> tuple["Run", dict, dict[str, np.ndarray]]:
        """A run to go on with: (run, its state, its tensors). Rows of the table after that state are forgotten.

        The state says in "logged" which row is the last; one of an earlier version was kept right after a row. Raises
        InputError where the folder holds no run, or one of another version.
        """
        run = cls(folder, writes, kind)
        path = run.folder / RESUME
        if not path.is_file():
            raise InputError(f"there is no {RESUME} in {folder}: {_advice_without_a_run(run.folder)}")
        tensors, metadata = checkpoint.load_tensors(path)
        state = state_in(metadata, path, kind)
        if kind is PRETRAINING:
            run_state.check_state(state, path)
        for name in [name for name in tensors if name.startswith(FILE)]:
            run.belongings[name.removeprefix(FILE)] = tensors.pop(name).tobytes()
        run.claimed = True
        run.kept = state["step"]
        run._go_back(state.get("logged", state["step"] or -1), state)
        return run, state, tensors

    def _go_back(self, last: int, state: dict) -> None:
        """Make the folder what it was: rows after this step are forgotten, lost files come back."""
        found = _rows_in(self._table, self.kind.columns)
        self.rows = [row for row in found if row["step"] <= last]
        run_state.check_rows(self.rows, state, self._table)
        if len(self.rows) < len(found) or not self._table.is_file():
            self._write()
        self._restore_files()

    def save(self, model: LanguageModel, optimizer: Optimizer, state: dict) -> None:
        """Write resume.safetensors: weights, moments, and the state (JSON; "step" is the number of updates made).

        Raises InputError where another run was quicker to take the folder, and, after all has been written again, where
        somebody has emptied the folder of this run.
        """
        if not self.writes:
            return
        path = self.folder / RESUME
        lost = self.claimed and not path.exists()
        if not self.claimed and path.exists():
            raise InputError(f"another run has just begun in {self.folder}: give another --out")
        weights = {f"p.{name}": to_numpy(parameter.data) for name, parameter in model.named_parameters()}
        files = {FILE + name: np.frombuffer(content, np.uint8) for name, content in self.belongings.items()}
        state = state | {run_state.ROWS: run_state.sum_of_rows(self.rows)}
        metadata = {self.kind.key: json.dumps(state)}
        checkpoint.save_tensors(path, weights | optimizer.state() | files, metadata)
        self.claimed = True
        self.kept = state["step"]
        self._restore_files()
        if lost:
            self._write()
            raise InputError(
                f"{self.folder} was removed or emptied during the run: the run as it stands at step {state['step']} is "
                "kept there again, an earlier best model is lost; the same command goes on"
            )

    def restore(self, model: LanguageModel, optimizer: Optimizer, step: int, tensors: dict[str, np.ndarray]) -> None:
        """Put the tensors of `load` back into a model and an optimizer that has made `step` updates."""
        checkpoint.fill(dict(model.named_parameters()), part(tensors, "p."), self.folder / RESUME)
        optimizer.load_state(tensors, step)

    def log(self, **row) -> None:
        """Add a line to the table; a column that is not given stays empty. Numbers keep the digits that are written."""
        self.rows.append({column: _rounded(row.get(column)) for column in self.kind.columns})
        self._write()

    def draw(
        self, vocab_size: int | None, unigram_entropy: float | None, at_plateau: bool = False, band: dict | None = None
    ) -> None:
        """Write loss.png. The parameters are those of `plot.loss_curve`."""
        from minigpt import plot  # here, because matplotlib takes longer to import than all the rest

        if self.writes:
            plot.loss_curve(self.rows, vocab_size, self.folder / PICTURE, unigram_entropy, at_plateau, band)

    @property
    def exported(self) -> bool:
        """Is there a model in the folder?"""
        return (self.folder / checkpoint.WEIGHTS).is_file()

    def export(self, model: LanguageModel) -> None:
        """Write the model directory."""
        if self.writes:
            model.save(self.folder, overwrite=True)

    @property
    def _table(self) -> Path:
        return self.folder / self.kind.table

    def _restore_files(self) -> None:
        """Write the belongings that are not there."""
        if self.writes:
            write_missing(self.folder, self.belongings)

    def _write(self) -> None:
        if self.writes:
            write_table(self._table, self.kind.columns, self.rows)


def part(tensors: dict[str, np.ndarray], prefix: str) -> dict[str, np.ndarray]:
    """The tensors whose names begin so, without that beginning."""
    return {name.removeprefix(prefix): tensor for name, tensor in tensors.items() if name.startswith(prefix)}


def look(folder: str | Path, kind: Kind = PRETRAINING) -> tuple[dict, list[dict]]:
    """The state of a run, and all rows of its table, without its tensors. It may go on meanwhile.

    Raises InputError where the folder holds no run, or one of another version.
    """
    path = Path(folder) / RESUME
    if not path.is_file():
        raise InputError(f"there is no {RESUME} in {folder}: give the folder of a run of {kind.command}")
    state = state_in(read_header(path).metadata, path, kind)
    return state, _rows_in(path.with_name(kind.table), kind.columns)


def _rows_in(path: Path, columns: Sequence[str]) -> list[dict]:
    """The rows of a table; none where there is no file. Raises InputError where it is damaged."""
    if not path.is_file() or _is_empty(path):
        return []
    try:
        with path.open(encoding="utf-8", newline="") as file:
            rows = [{c: float(row[c]) if row[c] else None for c in columns} for row in csv.DictReader(file)]
        return [row | {"step": int(row["step"])} for row in rows]
    except (ValueError, KeyError, TypeError, OverflowError, csv.Error) as error:
        wrong = f"{path} is damaged: expected numbers under {','.join(columns)}: {error!r}"
        raise InputError(f"{wrong}: move it away, and the run goes on without it") from error


def refuse_occupied(folder: Path, names: Collection[str]) -> None:
    """Raises InputError where `folder` is a file, or holds a file of one of these names."""
    if folder.exists() and not folder.is_dir():
        raise InputError(f"{folder} is a file: give another --out")
    for name in names:
        if (folder / name).exists():
            raise InputError(f"{folder} already holds a {name}: give another --out")


def refuse_others(folder: Path, files: dict[str, bytes]) -> None:
    """Raises InputError where the folder holds a file of one of these names with another content."""
    for name, content in files.items():
        path = folder / name
        if path.exists() and (path.is_dir() or path.read_bytes() != content):
            raise InputError(f"{folder} already holds a {name}, with another content: give another --out")


def write_missing(folder: Path, files: dict[str, bytes]) -> bool:
    """Write those of these files that are not there. Was there any?"""
    missing = [name for name in files if not (folder / name).is_file()]
    for name in missing:
        disk.write_bytes(folder / name, files[name])
    return bool(missing)


def holds_a_run(folder: str | Path) -> bool:
    """Is there something to go on with?"""
    return (Path(folder) / RESUME).is_file()


def _advice_without_a_run(folder: Path) -> str:
    """What to do where a folder holds no run: beside it there may be some."""
    others = sorted(path.parent for path in folder.parent.glob(f"*/{RESUME}"))
    if others:
        return f"start without --resume, or give another --out, such as {others[0]}"
    return "start without --resume, with an --out that is empty"


def files_of(text: Tokenizer, folder: Path) -> dict[str, bytes]:
    """What `text.save` writes: {name: content}. It is written beside, in `folder`, and removed again."""
    folder.mkdir(parents=True, exist_ok=True)
    beside = Path(tempfile.mkdtemp(prefix=".tokenizer.", suffix=disk.PARTIAL, dir=folder))
    try:
        text.save(beside)
        return {path.name: path.read_bytes() for path in sorted(beside.iterdir())}
    finally:
        shutil.rmtree(beside, ignore_errors=True)


def write_table(path: Path, columns: Sequence[str], rows: Sequence[dict]) -> None:
    """Write numbers as CSV, with seven digits; None is an empty field."""
    table = [["" if row[c] is None else _digits(row[c]) for c in columns] for row in rows]
    disk.write_text(path, "".join(",".join(fields) + "\n" for fields in (columns, *table)))


def _digits(number: float) -> str:
    return f"{number:.7g}"


def _rounded(number: float | None) -> float | None:
    """The number that is read back from the table."""
    if number is None or isinstance(number, int):
        return number
    return float(_digits(number))


def _is_empty(path: Path) -> bool:
    return path.is_file() and path.stat().st_size == 0


def state_in(metadata: dict[str, str], path: Path, kind: Kind) -> dict:
    """The state of a run of this kind. Raises InputError where it is not there."""
    if kind.key not in metadata:
        raise InputError(f"{path} was not written by {kind.command}: give another folder")
    try:
        state = json.loads(metadata[kind.key])
        for name in kind.state:
            state[name]
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise InputError(f"{path} was not written by this version of {kind.command}: {error!r}") from error
    return state

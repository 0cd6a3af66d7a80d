"""What a training run leaves on disk: loss.csv, loss.png, and the one file from which it goes on."""

import csv
import json
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from minigpt import tokenizer
from minigpt.device.arrays import to_numpy
from minigpt.errors import InputError
from minigpt.files import checkpoint, disk
from minigpt.models.language_model import LanguageModel
from minigpt.nn.optim import Optimizer

COLUMNS = ("step", "train_loss", "val_loss", "lr", "tokens_per_second")
RESUME, LOSSES, PICTURE = "resume.safetensors", "loss.csv", "loss.png"


class Run:
    """A run's folder. `Run.start` finds an empty one, which `claim` takes; `Run.load` finds one to go on from.

    writes: of several processes only one writes what all of them know.
    """

    def __init__(self, folder: str | Path, writes: bool = True):
        self.folder = Path(folder)
        self.writes = writes
        self.claimed = False
        self.rows: list[dict] = []

    @classmethod
    def start(
        cls, folder: str | Path, also: Sequence[str] = (), instead: str = ", go on with --resume, or start with --init"
    ) -> "Run":
        """A new run. Raises InputError where the folder already holds a model or a run: nothing is overwritten.

        also: extra file names that mark the folder as in use. instead: what one can do besides giving another folder.
        """
        run = cls(folder)
        if run.folder.exists() and not run.folder.is_dir():
            raise InputError(f"{folder} is a file: give another --out")
        for name in (RESUME, checkpoint.WEIGHTS, checkpoint.CONFIG, LOSSES, *tokenizer.FILES, *also):
            if (run.folder / name).exists():
                instead *= (run.folder / RESUME).exists()
                raise InputError(f"{folder} already holds a {name}: give another --out{instead}")
        return run

    def claim(self, name: str = LOSSES) -> bool:
        """Take the folder, with an empty file of this name: True, or False if it is this run's already.

        Raises InputError where another run, begun at the same time, was quicker.
        """
        if self.claimed:
            return False
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            (self.folder / name).touch(exist_ok=False)
        except FileExistsError as error:
            raise InputError(f"another run has just begun in {self.folder}: give another --out") from error
        self.claimed = True
        return True

    @classmethod
    def load(cls, folder: str | Path, writes: bool = True) -> tuple["Run", dict, dict[str, np.ndarray]]:
        """A run to go on with: (run, its state, its tensors). The rows of loss.csv after that state are forgotten.

        Raises InputError where the folder holds no run, or one of another version.
        """
        run = cls(folder, writes)
        path = run.folder / RESUME
        if not path.is_file():
            raise InputError(f"there is no {RESUME} in {folder}: start without --resume, with an --out that is empty")
        tensors, metadata = checkpoint.load_tensors(path)
        if "run" not in metadata:
            raise InputError(f"{path} was not written by minigpt train: it holds tensors but no run")
        try:
            state = json.loads(metadata["run"])
            state["step"], state["best"], state["options"], state["config"], state["text"]
        except (ValueError, KeyError, TypeError) as error:
            raise InputError(f"{path} was not written by this version of minigpt train: {error!r}") from error
        # from step 0 on all begins anew, with the first evaluation
        last = state["step"] or -1
        run.rows = [row for row in run._read() if row["step"] <= last]
        run.claimed = True
        run._write()
        return run, state, tensors

    def save(self, model: LanguageModel, optimizer: Optimizer, state: dict) -> None:
        """Write resume.safetensors: weights, moments, and the state (JSON; "step" is the number of updates made)."""
        if not self.writes:
            return
        weights = {f"p.{name}": to_numpy(parameter.data) for name, parameter in model.named_parameters()}
        checkpoint.save_tensors(self.folder / RESUME, weights | optimizer.state(), {"run": json.dumps(state)})

    def restore(self, model: LanguageModel, optimizer: Optimizer, step: int, tensors: dict[str, np.ndarray]) -> None:
        """Put the tensors of `load` back into a model and an optimizer that has made `step` updates."""
        weights = {name[2:]: tensor for name, tensor in tensors.items() if name.startswith("p.")}
        checkpoint.fill(dict(model.named_parameters()), weights, self.folder / RESUME)
        optimizer.load_state(tensors, step)

    def log(self, **row) -> None:
        """Add a line to loss.csv; a column that is not given stays empty."""
        self.rows.append({column: row.get(column) for column in COLUMNS})
        self._write()

    def draw(self, vocab_size: int) -> None:
        """Write loss.png."""
        from minigpt import plot  # here, because matplotlib takes longer to import than all the rest

        if self.writes:
            plot.loss_curve(self.rows, vocab_size, self.folder / PICTURE)

    def export(self, model: LanguageModel) -> None:
        """Write the model directory."""
        if self.writes:
            model.save(self.folder)

    def _write(self) -> None:
        if self.writes:
            write_table(self.folder / LOSSES, COLUMNS, self.rows)

    def _read(self) -> list[dict]:
        path = self.folder / LOSSES
        if not path.is_file():
            return []
        try:
            with path.open(encoding="utf-8", newline="") as file:
                rows = [{c: float(row[c]) if row[c] else None for c in COLUMNS} for row in csv.DictReader(file)]
            return [row | {"step": int(row["step"])} for row in rows]
        except (ValueError, KeyError, TypeError, OverflowError) as error:
            wrong = f"{path} is damaged: expected numbers under {','.join(COLUMNS)}: {error!r}"
            raise InputError(f"{wrong}: move it away, and the run goes on without it") from error


def write_table(path: Path, columns: Sequence[str], rows: Sequence[dict]) -> None:
    """Write numbers as CSV, with seven digits; None is an empty field."""
    table = [["" if row[c] is None else f"{row[c]:.7g}" for c in columns] for row in rows]
    disk.write_text(path, "".join(",".join(fields) + "\n" for fields in (columns, *table)))

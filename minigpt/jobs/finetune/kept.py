"""What a fine-tuning run leaves on disk, and the one file from which it goes on.

That file is written whole or not at all, and before everything else. So a folder without it holds no work, and one
with it can always be gone on with, whenever the process was killed.
"""

import json
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from minigpt.errors import InputError
from minigpt.files import checkpoint
from minigpt.jobs import run_state
from minigpt.jobs.run_folder import RESUME, Kind, Run, state_in

COLUMNS = ("seed", "epoch", "step", "train_loss", "lm_loss", "valid_loss", "score")
CURVES, PICTURE, RESULTS = "finetune.csv", "finetune.png", "results.json"
STATE = "finetune"  # in the metadata of the file
FINETUNING = Kind(
    command="minigpt finetune",
    key=STATE,
    table=CURVES,
    columns=COLUMNS,
    state=("options", "marks", "scores", "rows", "finished", "tuning"),
    files=(PICTURE, RESULTS),
)


@dataclass
class Kept:
    """How far a run is.

    options: what it was told; marks: what its examples, its model and its vocabulary were, as checksums; scores: of
    the seeds that are finished; others: the same on further tests, by split; rows: of the table, for all seeds;
    tuning: the state of the seed at work, with its tensors, or None where that seed has not begun; workers: how its
    sums are divided (see `run_state.workers`), None in the file of an earlier version.
    """

    options: dict[str, Any]
    marks: dict[str, str]
    scores: list[float] = field(default_factory=list)
    others: dict[str, list[float]] = field(default_factory=dict)
    rows: list[dict[str, float]] = field(default_factory=list)
    finished: bool = False
    tuning: dict[str, Any] | None = None
    workers: dict[str, int] | None = None
    tensors: dict[str, np.ndarray] = field(default_factory=dict)

    def save(self, folder: Path) -> None:
        """Write it. Raises InputError where that is not possible; what was kept before is then still there."""
        self.workers = None if self.finished else run_state.workers()
        state = {name: value for name, value in vars(self).items() if name != "tensors"}
        checkpoint.save_tensors(folder / RESUME, self.tensors, {STATE: json.dumps(state)})

    @classmethod
    def load(cls, folder: Path) -> "Kept | None":
        """What was kept in a folder; None where nothing was. Raises InputError for a file of something else."""
        path = folder / RESUME
        if not path.is_file():
            return None
        tensors, metadata = checkpoint.load_tensors(path)
        state = state_in(metadata, path, FINETUNING)
        try:
            kept = cls(**state, tensors=tensors)
            if kept.tuning is not None:
                _need(kept.tuning, "seed", "step", "epoch", "losses", "best")
            _need(kept.options, "seed", "seeds")
            _need(kept.marks, "model")
        except (KeyError, TypeError) as error:
            raise InputError(f"{path} was not written by this version of {FINETUNING.command}: {error!r}") from error
        return kept


def _need(values: dict[str, Any], *names: str) -> None:
    """Raises KeyError where one of these is missing."""
    for name in names:
        values[name]


def check_empty(folders: Iterable[Path]) -> None:
    """Raises InputError where one of the folders of a new run holds a model or a run: nothing is overwritten."""
    for folder in folders:
        Run.start(folder, FINETUNING)

"""The losses of sound runs: what is normal for a configuration, from the same run with several seeds.

A band file (`bands/NAME.json`, written by `benchmarks/bands.py`) holds the training loss of each seed at each row of
loss.csv, the validation losses before the first update and after the last one, and all that these depend on.

What is outside was chosen by its false alarms (`benchmarks/bands.py --false-alarms`), so that fewer than 1 of 20 sound
runs is ever outside: LASTING rows one after the other, further from the mean than `Band.reach` times the spread.
"""

import functools
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from minigpt.errors import InputError
from minigpt.files.disk import read_json
from minigpt.jobs.option_fields import option_text

HOME = Path(__file__).with_name("bands")
REACH = 3.0  # times the spread of many seeds: how far the band reaches to both sides
UNCERTAIN = 12.0  # divided by the seeds: how much further, for few of them tell the spread badly
LASTING = 3  # rows one after the other that are outside: then it is no chance
ASIDE = 8  # rows on each side whose spread counts too: that of five seeds in one row is a poor estimate
LEAST = 0.005  # of the loss: the spread is never less
FEWEST = 3  # seeds of a band
SHOWN = 4  # differences that are named

SAME = (
    "model", "layers", "heads", "embd", "context", "data", "tokenizer", "steps", "batch", "objective", "mask_rate",
    "dropout", "align", "dtype", "init", "teacher",
)  # fmt: skip  # of another task the losses cannot be compared
TUNED = ("lr", "min_lr", "warmup", "init_std", "beta2", "weight_decay", "clip")  # how the same task is learned


def setting_of(state: dict) -> dict[str, Any]:
    """All that the losses of a run depend on, but for its seed. state: what is kept of it (`Job.state`)."""
    setting = {name: state["options"].get(name) for name in (*SAME, *TUNED)}
    setting["init_std"] = state["config"].get("initializer_range")
    return setting | {"text": state["text"]}


@dataclass(frozen=True)
class Band:
    """The losses of S sound runs at R rows.

    setting: `setting_of` each of them. entropy: that of the token frequencies, or None. seeds: (S,). steps, rates (R,):
    of each row, and the learning rate there. losses (S,R): the mean training loss of the updates since the row before.
    first, last (S,): the validation loss before the first update and after the last.
    """

    name: str
    setting: dict[str, Any]
    entropy: float | None
    seeds: list[int]
    steps: np.ndarray
    rates: np.ndarray
    losses: np.ndarray
    first: np.ndarray
    last: np.ndarray

    @functools.cached_property
    def mean(self) -> np.ndarray:
        """(R,)"""
        return self.losses.mean(axis=0)

    @functools.cached_property
    def spread(self) -> np.ndarray:
        """(R,): the standard deviation of one more run from the mean of these, from the rows around as well."""
        window = np.ones(min(2 * ASIDE + 1, len(self.steps)))
        variance = self.losses.var(axis=0, ddof=1)
        variance = np.convolve(variance, window, "same") / np.convolve(np.ones(len(variance)), window, "same")
        return np.maximum(np.sqrt(variance * (1 + 1 / len(self.seeds))), LEAST * self.mean)

    @property
    def reach(self) -> float:
        """How many times the spread the band reaches to both sides: 7 with three seeds, 5 with six, 3.6 with twenty."""
        return REACH + UNCERTAIN / len(self.seeds)

    @property
    def low(self) -> np.ndarray:
        """(R,): where the band begins."""
        return self.mean - self.reach * self.spread

    @property
    def high(self) -> np.ndarray:
        """(R,): where it ends."""
        return self.mean + self.reach * self.spread

    def differences(self, setting: dict[str, Any], names: Sequence[str]) -> list[str]:
        """Those of these options that another run has differently, each as `--steps 500 (2000)`, the band's last."""
        found = []
        for name in names:
            given, usual = setting[name], self.setting[name]
            if given != usual:
                found.append(f"{option_text(name, _short(given))} ({'none' if usual is None else _short(usual)})")
        return found

    def other_task(self, setting: dict[str, Any]) -> list[str]:
        """Why the losses of that run cannot be compared with these; empty where they can.

        A text is known by its tokens: it may have been moved, and another version of a text may have the same name.
        """
        same_text = setting["text"] == self.setting["text"]
        names = [name for name in SAME if not (same_text and name in ("data", "tokenizer"))]
        found = self.differences(setting, names)
        return found if same_text or found else ["another text"]

    def on_my_rows(self, rows: Sequence[dict]) -> tuple[np.ndarray, np.ndarray]:
        """The training loss and the rate of a run at those rows of the band that it has passed: (at most R,) each.

        A run that evaluates more often has rows at other steps too: where two of them lie in one row of the band, the
        loss is their mean, each as long as it lasted.
        """
        known = [row for row in rows if row["train_loss"] is not None]
        ends = np.array([0, *(row["step"] for row in known)])
        sums = np.cumsum([0, *(row["train_loss"] * n for row, n in zip(known, np.diff(ends), strict=True))])
        mine = self.steps[self.steps <= ends[-1]]
        losses = np.diff(np.interp([0, *mine], ends, sums)) / np.diff([0, *mine])
        return losses, np.interp(mine, ends[1:], [row["lr"] for row in known]) if known else losses

    def range_of(self, losses: np.ndarray) -> tuple[float, float]:
        """What one more run is expected to have where these (S,) are the losses of the band."""
        far = self.reach * losses.std(ddof=1) * np.sqrt(1 + 1 / len(losses))
        return losses.mean() - far, losses.mean() + far


def _short(value: Any) -> Any:
    return f"{value:.3g}" if isinstance(value, float) else value


def from_runs(name: str, runs: Sequence[tuple[dict, list[dict]]], entropy: float | None) -> Band:
    """The band of finished runs, each its state and its rows of loss.csv. Raises InputError where they do not agree."""
    settings = [setting_of(state) for state, _ in runs]
    seeds = [state["options"]["seed"] for state, _ in runs]
    grids = [[row["step"] for row in rows if row["train_loss"] is not None] for _, rows in runs]
    if len(set(seeds)) < max(FEWEST, len(seeds)):
        raise InputError(f"a band has at least {FEWEST} runs, each with a --seed of its own: these have {seeds}")
    for setting, steps, seed in zip(settings, grids, seeds, strict=True):
        if setting != settings[0] or steps != grids[0]:
            raise InputError(f"the run of seed {seed} has other options, or another --eval-every, than the first one")
        if not steps or steps[-1] != setting["steps"]:
            raise InputError(f"the run of seed {seed} is not finished")
    tables = [[row for row in rows if row["train_loss"] is not None] for _, rows in runs]
    return Band(
        name=name,
        setting=settings[0],
        entropy=entropy,
        seeds=seeds,
        steps=np.array(grids[0]),
        rates=np.array([row["lr"] for row in tables[0]]),
        losses=np.array([[row["train_loss"] for row in table] for table in tables]),
        first=np.array([rows[0]["val_loss"] for _, rows in runs]),
        last=np.array([rows[-1]["val_loss"] for _, rows in runs]),
    )


def load(path: Path) -> Band:
    """The band in a file that `benchmarks/bands.py` wrote."""
    content = read_json(path)
    arrays = {name: np.array(content[name]) for name in ("steps", "rates", "losses", "first", "last")}
    about = {name: content[name] for name in ("setting", "entropy", "seeds")}
    return Band(name=path.stem, **about, **arrays)


def every_band() -> list[Band]:
    """Those that come with the package."""
    return [load(path) for path in sorted(HOME.glob("*.json"))]


def that_fits(setting: dict[str, Any]) -> Band | None:
    """The band of exactly these options."""
    found = nearest(setting)
    return found if found and not found.differences(setting, TUNED) else None


def nearest(setting: dict[str, Any]) -> Band | None:
    """The band of this task, even where it is learned with another rate or the like."""
    able = [band for band in every_band() if not band.other_task(setting)]
    return min(able, key=lambda band: len(band.differences(setting, TUNED)), default=None)


def none_fits(setting: dict[str, Any]) -> str:
    """Which bands there are, and what this run has differently."""
    told = []
    for band in every_band():
        different = band.other_task(setting)
        more = f" and {len(different) - SHOWN} more" if len(different) > SHOWN else ""
        told.append(f"{band.name}: {', '.join(different[:SHOWN])}{more}")
    return f"no band fits this run. It differs from {'; from '.join(told)}" if told else "there is no band"

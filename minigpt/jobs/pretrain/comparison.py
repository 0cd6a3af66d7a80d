"""Is this curve normal? A run beside the band of its configuration: the first abnormal step, and what may be the cause.

All is read from the rows of loss.csv, so a run that was resumed, or that is only looked at, says the same.
"""

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from minigpt.jobs import run_folder
from minigpt.jobs.pretrain import band as bands
from minigpt.jobs.pretrain.band import LASTING, TUNED, Band
from minigpt.jobs.pretrain.causes import Evidence, likely


class Finding(NamedTuple):
    """A run is outside its band from this step on. loss, low, high: there. told_at: the row at which it is known."""

    side: str
    step: int
    loss: float
    low: float
    high: float
    told_at: int
    causes: list[str]

    def __str__(self) -> str:
        beside = f"training loss {self.loss:.3f}, the band {self.low:.3f} to {self.high:.3f}"
        return f"abnormal from step {self.step} on, {self.side} the band ({beside}); likely: {self.why}"

    @property
    def why(self) -> str:
        """The causes in words."""
        return "; or ".join(self.causes)


class Comparison:
    """A run beside a band. setting: `band.setting_of` the run; the band may be tuned in another way."""

    def __init__(self, band: Band, setting: dict[str, Any]):
        self.band = band
        self.setting = setting

    def opening(self) -> str:
        """What is compared with what."""
        band = self.band
        tuned = band.differences(self.setting, TUNED)
        but = f", which is tuned in another way: this run has {', '.join(tuned)}" if tuned else ""
        return f"compare  with the band {band.name} of {len(band.seeds)} seeds{but}"

    def findings(self, rows: Sequence[dict]) -> list[Finding]:
        """Where the run leaves its band for the first time, above and below, in the order of the steps."""
        band = self.band
        losses, rates = band.on_my_rows(rows)
        distance = (losses - band.mean[: len(losses)]) / band.spread[: len(losses)]
        starts = {"above": _first_lasting(distance > band.reach), "below": _first_lasting(distance < -band.reach)}
        starts = {side: start for side, start in starts.items() if start is not None}
        found = []
        for side, start in starts.items():
            evidence = Evidence(band, self.setting, rows, losses, rates, side, start, both=len(starts) == 2)
            where = int(band.steps[start]), losses[start], band.low[start], band.high[start]
            found.append(Finding(side, *where, int(band.steps[start + LASTING - 1]), likely(evidence)))
        return sorted(found, key=lambda finding: finding.step)

    def news(self, rows: Sequence[dict]) -> list[Finding]:
        """What the last of these rows has shown, and no earlier one did."""
        before = {finding.side for finding in self.findings(rows[:-1])} if len(rows) > LASTING else set()
        return [finding for finding in self.findings(rows) if finding.side not in before]

    def closing(self, rows: Sequence[dict]) -> str:
        """In a line: normal, or where it became abnormal; and the last validation loss beside those of the band."""
        if not rows:
            return "compare  the run has no losses yet, or its loss.csv is gone"
        findings = self.findings(rows)
        verdict = f"normal: inside the band of {len(self.band.seeds)} seeds"
        if findings:
            where = ", then ".join(f"{one.side} the band from step {one.step} on" for one in findings)
            verdict = f"abnormal: {where}; likely: {findings[0].why}"
        if rows[-1]["step"] < self.setting["steps"]:
            return f"compare  {verdict}, up to step {rows[-1]['step']}"
        loss = rows[-1]["val_loss"]
        low, high = self.band.range_of(self.band.last)
        if not math.isfinite(loss):
            return f"compare  abnormal: the final validation loss is {loss}"
        place = "below" if loss < low else "above" if loss > high else "inside"
        return f"compare  {verdict}. Final validation loss {loss:.3f}, {place} the expected {low:.3f} to {high:.3f}"

    @property
    def shade(self) -> dict[str, Any]:
        """The band for `plot.loss_curve`."""
        label = f"band of {len(self.band.seeds)} seeds"
        return {"x": self.band.steps, "y1": self.band.low, "y2": self.band.high, "label": label}


def _first_lasting(outside: np.ndarray) -> int | None:
    """outside (N,) -> where the first LASTING of them stand that are true one after the other."""
    lasting = np.convolve(outside, np.ones(LASTING), "valid") if len(outside) >= LASTING else np.zeros(0)
    return next(iter(np.flatnonzero(lasting == LASTING).tolist()), None)


def comparison_of(state: dict, with_nearest: bool) -> Comparison | None:
    """A run beside its band; None where there is none. with_nearest: one that is tuned in another way will do."""
    setting = bands.setting_of(state)
    band = bands.nearest(setting) if with_nearest else bands.that_fits(setting)
    return Comparison(band, setting) if band else None


def compare(folder: str | Path) -> str:
    """What the curve of a run is beside its band, in one line or two. The run may be finished, or still going on.

    Raises InputError where the folder holds no run.
    """
    state, rows = run_folder.look(folder)
    comparison = comparison_of(state, with_nearest=True)
    if comparison is None:
        return f"compare  {bands.none_fits(bands.setting_of(state))}"
    return f"{comparison.opening()}\n{comparison.closing(rows)}"

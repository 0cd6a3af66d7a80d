"""Why a run may have left its band: what can be seen in its rows and options, the strongest evidence first.

The rate in loss.csv tells most. A run at the entropy of its token frequencies has come to rest (`plateau`). One that is
better than any sound run sees what it should predict: then it is better on the validation text, too.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from minigpt.jobs.pretrain import plateau
from minigpt.jobs.pretrain.band import Band

APART = 1.5  # times the rate of the band, or a part of it: another rate
RISES = 3.0  # times the largest rise in the band from one row to the next: a spike
OTHERS = ("init_std", "beta2", "weight_decay", "clip")  # options of the update that are not seen in the rates


@dataclass
class Evidence:
    """What is known of a run that has left its band. losses, rates (N,): at the rows of the band up to now.

    side: "above" or "below" it, from row number `start` on. both: was it outside on the other side, too?
    """

    band: Band
    setting: dict[str, Any]
    rows: Sequence[dict]
    losses: np.ndarray
    rates: np.ndarray
    side: str
    start: int
    both: bool


def likely(e: Evidence) -> list[str]:
    """The likely causes, the likeliest first: what differs before the losses do; or else what their course tells."""
    differs = [*_rate(e), *_options(e), *_first_loss(e)]
    course = _data(e) or (_too_good(e) if e.side == "below" else _too_bad(e))
    return differs or course


def _rate(e: Evidence) -> list[str]:
    """Is the rate another one, or is the warm-up missing?"""
    usual = e.band.rates[: len(e.rates)]
    rising = usual > 0
    times = e.rates[rising] / usual[rising]
    if not len(times):
        return []
    typical = float(np.median(times))
    first = int(np.argmax(rising))
    where = f"{e.rates[first]:.2g} at step {e.band.steps[first]}, the band has {usual[first]:.2g}"
    if times[0] > APART * max(times[-1], 1) and e.band.steps[0] < e.band.setting["warmup"]:
        return [f"the warm-up is missing or too short: the rate is {where}"]
    if typical > APART:
        return [f"the rate is too high: {where}"]
    if typical < 1 / APART:
        return [f"the rate is too low: {where}"]
    return []


def _options(e: Evidence) -> list[str]:
    """Are other options of the update different?"""
    return e.band.differences(e.setting, OTHERS)


def _first_loss(e: Evidence) -> list[str]:
    """Was the loss another one before the first update?"""
    first = e.rows[0]["val_loss"]
    low, high = e.band.range_of(e.band.first)
    if first is None or low <= first <= high:
        return []
    usual = f"{first:.3f} before any update, not {low:.3f} to {high:.3f}"
    return [f"new weights, a tokenizer or a loss of another kind: {usual}"]


def _data(e: Evidence) -> list[str]:
    """Is it outside on both sides?"""
    return ["data in another order, or of another kind: it is outside on both sides"] if e.both else []


def _too_good(e: Evidence) -> list[str]:
    """Lower than any sound run: on the validation text too?"""
    begin = e.band.steps[e.start]
    valid = [(row["step"], row["val_loss"]) for row in e.rows if row["step"] >= begin and row["val_loss"] is not None]
    leak = "the targets are seen: a mask that is missing, or targets that are not shifted"
    if valid and valid[-1][1] > np.interp(valid[-1][0], e.band.steps, e.band.low):
        return ["the training text is another, shorter or repeated one: the validation loss is not so low", leak]
    return [leak]


def _too_bad(e: Evidence) -> list[str]:
    """Higher than any sound run: at rest, with spikes, or slow?"""
    gradient = "a gradient is wrong: minigpt check"
    if e.band.entropy and plateau.is_at_plateau(e.rows, e.band.entropy, e.setting["steps"]):
        rests = f"it rests at the loss of token frequencies, {e.band.entropy:.2f}: too high a rate or no warm-up"
        return [rests, gradient]
    largest = np.diff(e.band.losses, axis=1).max()
    if np.diff(e.losses).max(initial=0) > RISES * max(largest, 0):
        return ["the rate is too high, or nothing is clipped: the loss has spikes", gradient]
    return [gradient, "the updates are too small: it learns slowly"]

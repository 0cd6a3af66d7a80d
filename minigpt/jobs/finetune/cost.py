"""What an update costs: its bytes, counted, and its seconds, measured before the work begins."""

import contextlib
import time
from typing import NamedTuple

import numpy as np

from minigpt.data import input_transformations
from minigpt.jobs.finetune.tuning import Tuning, update
from minigpt.models import costs
from minigpt.nn.optim import GPT1Adam, NonFiniteGradient
from minigpt.ops.random_keys import Key


class Speed(NamedTuple):
    """Seconds of an average update, and of judging one token."""

    update: float
    token: float


def update_memory(tuning: Tuning, numbers: int) -> costs.Memory:
    """Bytes of the largest update. The best weights so far are kept beside the weights, and counted with them."""
    body = tuning.model.body
    rows = min(tuning.options.batch, len(tuning.lengths)) * len(tuning.train.encoded[0])
    activations = costs.activations(type(body), body.config, rows, max(tuning.lengths))
    return costs.Memory(weights=8 * numbers, gradients=4 * numbers, moments=8 * numbers, activations=activations)


def measure(tuning: Tuning) -> Speed:
    """The time of an update and of judging, from one batch of usual length; nothing of the tuning is changed."""
    plan = tuning.plan()
    longest = [max(tuning.lengths[i] for i in rows) for rows in plan]
    middle = np.argsort(longest)[len(plan) // 2]
    usual = plan[middle]
    seconds = []
    for _ in range(2):  # the first one warms up
        start = time.perf_counter()
        _try_update(tuning, usual)
        seconds.append(time.perf_counter() - start)
    ids, lengths = input_transformations.batch([tuning.train.encoded[i] for i in usual])
    start = time.perf_counter()
    tuning.model.probabilities(ids, lengths)
    judging = time.perf_counter() - start
    share = np.mean(longest) / longest[middle]
    return Speed(min(seconds) * share, judging / ids.size)


def _try_update(tuning: Tuning, rows: np.ndarray) -> None:
    """An update with a rate of 0, by an optimiser of its own: every weight stays what it is, to the bit."""
    model = tuning.model
    optimizer = GPT1Adam(model.learned())
    key = Key.of(tuning.seed, 0)
    with contextlib.suppress(NonFiniteGradient):  # the first update will tell
        losses = update(model, tuning.train, rows, tuning.options, key, optimizer, lr=0.0)
        float(losses.total)  # a GPU has done everything that was launched before
    model.zero_grad()

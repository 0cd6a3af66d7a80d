"""What an update costs: its bytes, counted, and its seconds, measured before the work begins."""

import time
from typing import NamedTuple

import numpy as np

from minigpt.data import input_transformations
from minigpt.jobs.finetune.tuning import Tuning, batches
from minigpt.models import costs
from minigpt.nn.optim import GPT1Adam, NonFiniteGradient, clip_by_global_norm
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
    lengths = np.asarray(tuning.lengths)
    plan = batches(tuning.lengths, tuning.options.batch, np.random.default_rng([tuning.seed, tuning.epoch]))
    sizes = [lengths[rows].max() for rows in plan]
    usual = plan[int(np.argsort(sizes)[len(sizes) // 2])]
    seconds = []
    for _ in range(2):  # the first one warms up
        start = time.perf_counter()
        _try_update(tuning, usual)
        seconds.append(time.perf_counter() - start)
    ids, at = input_transformations.batch([tuning.train.encoded[i] for i in usual])
    start = time.perf_counter()
    tuning.model.probabilities(ids, at)
    judging = time.perf_counter() - start
    share = np.mean(sizes) / lengths[usual].max()
    return Speed(min(seconds) * share, judging / ids.size)


def _try_update(tuning: Tuning, rows: np.ndarray) -> None:
    """An update with a rate of 0, by an optimiser of its own: every weight stays what it is, to the bit."""
    model = tuning.model
    ids, lengths = input_transformations.batch([tuning.train.encoded[i] for i in rows])
    labels = np.array([tuning.train.examples[i].label for i in rows])
    losses, cache = model.loss(ids, lengths, labels, tuning.options.lm_weight, key=Key.of(tuning.seed, 0))
    model.loss_backward(cache)
    try:
        clip_by_global_norm(model.named_parameters(), tuning.options.clip)
        GPT1Adam(model.named_parameters()).step(0.0)
    except NonFiniteGradient:
        pass  # the first update will tell
    float(losses.total)  # a GPU has done everything that was launched before
    model.zero_grad()

"""One evaluation: the answers of a classifier, and how good they are by the task's own metric."""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
from tqdm import tqdm

from minigpt.data import input_transformations
from minigpt.data.input_transformations import Encoded
from minigpt.evaluation import metrics
from minigpt.jobs.finetune.examples import Data
from minigpt.models.task_model import TaskModel, expected_score, score_targets

TINY = 1e-300  # a probability of 0 has no logarithm


class Judged(NamedTuple):
    """How a classifier did: the task's metric, the mean cross-entropy in nats, its answers, and how sure it was."""

    score: float
    loss: float
    answers: np.ndarray  # (N,) int: labels or choices; float: scores
    probabilities: np.ndarray  # (N,K)


def answer(
    model: TaskModel, encoded: Sequence[Sequence[Encoded]], size: int = 64, check: Callable[[], None] = lambda: None
) -> np.ndarray:
    """(N,K): how likely each label, or each candidate, is the right one, for sequences of like length together.

    check: runs before each batch of `size` examples; it may raise.
    """
    order = sorted(range(len(encoded)), key=lambda i: len(encoded[i][0].ids))
    found: list[Any] = [None] * len(encoded)
    for first in tqdm(range(0, len(order), size), "evaluating", leave=False, delay=2, disable=None):
        check()
        rows = order[first : first + size]
        ids, lengths = input_transformations.batch([encoded[i] for i in rows])
        for i, p in zip(rows, model.probabilities(ids, lengths), strict=True):
            found[i] = p
    return np.array(found)


def evaluate(model: TaskModel, data: Data, check: Callable[[], None] = lambda: None) -> Judged:
    """Judge a classifier by the task's own metric, on all of these examples. check: as for `answer`."""
    p = answer(model, data.encoded, check=check)
    labels = np.array(data.labels)
    if model.task.scored:
        answers = expected_score(p)
        classes, weights = score_targets(labels)
        of_right = np.take_along_axis(p, classes, axis=1)
        losses = -(weights * np.log(np.maximum(of_right, TINY))).sum(axis=1)
    else:
        answers = p.argmax(axis=1)
        of_right = p[np.arange(len(p)), labels]
        losses = -np.log(np.maximum(of_right, TINY))
    return Judged(metrics.judge(model.task, answers, labels), float(losses.mean()), answers, p)

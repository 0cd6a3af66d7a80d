"""How good are the answers? The four measures of GPT-1's tables 2 to 4, of which 1 is the best, and how sure they are.

`predictions` and `answers` are (N,): indices of labels or of choices; for `pearson`, scores.
"""
import math
import unicodedata
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np

from minigpt.data.examples import Task, check_task
from minigpt.errors import InputError


def _pair(predictions: Any, answers: Any) -> tuple[np.ndarray, np.ndarray]:
    predictions, answers = np.asarray(predictions), np.asarray(answers)
    if predictions.shape != answers.shape or answers.ndim != 1 or len(answers) == 0:
        raise InputError(f"{predictions.shape} predictions for {answers.shape} answers: give as many, one or more")
    return predictions, answers


def accuracy(predictions: Any, answers: Any) -> float:
    """The share that is right."""
    predictions, answers = _pair(predictions, answers)
    return float((predictions == answers).mean())


def f1(predictions: Any, answers: Any, positive: int = 1) -> float:
    """Of one label, 2 TP / (2 TP + FP + FN) (van Rijsbergen 1979); 0 where it is never predicted rightly."""
    predicted, true = (array == positive for array in _pair(predictions, answers))
    return float(2 * (predicted & true).sum() / max(1, predicted.sum() + true.sum()))


def matthews(predictions: Any, answers: Any) -> float:
    """The correlation of two ways to label (Matthews 1975; more than two labels: Gorodkin 2004).

    Of s examples c are right, p_k are predicted to be k, and t_k are k: (c s - sum p_k t_k) /
    sqrt((s^2 - sum p_k^2) (s^2 - sum t_k^2)). 0 where all predictions, or all answers, are the same label.
    """
    matrix = confusion(predictions, answers)
    t, p, c = matrix.sum(axis=1).tolist(), matrix.sum(axis=0).tolist(), int(matrix.trace())  # integers: exact
    s = sum(t)
    varied = (s * s - sum(k * k for k in p)) * (s * s - sum(k * k for k in t))
    return (c * s - sum(a * b for a, b in zip(p, t, strict=True))) / math.sqrt(varied) if varied else 0.0


def pearson(predictions: Any, answers: Any) -> float:
    """The correlation of two scores, cov(x, y) / (std x std y) (Pearson 1895); 0 where one of them never varies."""
    x, y = (np.asarray(array, np.float64) for array in _pair(predictions, answers))
    if np.ptp(x) == 0 or np.ptp(y) == 0:  # asked first: rounding would leave a little of x - mean
        return 0.0
    x, y = x - x.mean(), y - y.mean()
    return float((x / np.linalg.norm(x)) @ (y / np.linalg.norm(y)))


def judge(task: Task, predictions: Any, answers: Any) -> float:
    """The measure that the task names."""
    check_task(task)
    of_positive = partial(f1, positive=task.positive)
    measure = {"accuracy": accuracy, "f1": of_positive, "matthews": matthews, "pearson": pearson}[task.metric]
    return measure(predictions, answers)


def interval(task: Task, predictions: Any, answers: Any) -> tuple[float, float]:
    """The 95 % interval of `judge`: Wilson's of an accuracy, by bootstrap of any other measure."""
    if task.metric == "accuracy":
        return wilson(accuracy(predictions, answers) * len(answers), len(answers))
    return bootstrap(partial(judge, task), predictions, answers)


def wilson(right: float, n: int, z: float = 1.96) -> tuple[float, float]:
    """The 95 % interval of a proportion right / n (Wilson 1927): never outside 0 to 1, and not empty at 0 or n."""
    p, share = right / n, z * z / n
    half = z * math.sqrt(p * (1 - p) / n + share / (4 * n))
    return max(0.0, (p + share / 2 - half) / (1 + share)), min(1.0, (p + share / 2 + half) / (1 + share))


def bootstrap(metric: Callable, predictions: Any, answers: Any, seed: int = 0, n: int = 1000) -> tuple[float, float]:
    """The 95 % interval of a metric: its percentiles over n draws of the examples with replacement (Efron 1979)."""
    predictions, answers = _pair(predictions, answers)
    rng = np.random.default_rng(seed)
    picks = (rng.integers(len(answers), size=len(answers)) for _ in range(n))
    return tuple(np.percentile([metric(predictions[pick], answers[pick]) for pick in picks], (2.5, 97.5)).tolist())


def mean_interval(totals: Sequence[float], counts: Sequence[float] | None = None) -> tuple[float, float, float]:
    """sum(totals) / sum(counts) and its normal 95 % interval, the pairs being independent draws (the delta method).

    counts: 1 each, if not given: the mean. One pair alone says nothing of the spread: -inf to inf.
    """
    totals = np.asarray(totals, np.float64)
    counts = np.ones_like(totals) if counts is None else np.asarray(counts, np.float64)
    n, mean = len(totals), float(totals.sum() / counts.sum())
    spread = ((totals - mean * counts) ** 2).sum()
    half = 1.96 * math.sqrt(n / (n - 1) * spread) / float(counts.sum()) if n > 1 else math.inf
    return mean, mean - half, mean + half


def confusion(predictions: Any, answers: Any, n: int = 0) -> np.ndarray:
    """How often each answer (rows) got each prediction (columns): (n,n) int64. n: as many labels at least."""
    predictions, answers = _pair(predictions, answers)
    n = max(n, int(predictions.max()) + 1, int(answers.max()) + 1)
    return np.bincount(n * answers + predictions, minlength=n * n).reshape(n, n)


def confusion_table(labels: Sequence[str], matrix: np.ndarray) -> str:
    """The matrix as text, with the share of each answer that was predicted right."""
    rows = [["answer \\ predicted", *labels, "right"]]
    for label, counts, right in zip(labels, matrix.tolist(), matrix.diagonal(), strict=True):
        rows.append([label, *(f"{count:,}" for count in counts), f"{right / max(1, sum(counts)):.1%}"])
    widths = [max(map(_width, column)) for column in zip(*rows, strict=True)]
    cells = ([" " * (w - _width(cell)) + cell for w, cell in zip(widths, row, strict=True)] for row in rows)
    return "\n".join("   ".join(row) for row in cells)


def _width(text: str) -> int:
    """Columns of a terminal: a Korean letter takes two."""
    return sum(2 if unicodedata.east_asian_width(c) in "WF" else 1 for c in text)

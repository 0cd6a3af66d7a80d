"""How good are the answers? The measures of GPT-1's tables 2 to 4 and of KLUE, of which 1 is the best; intervals.

`predictions` and `answers` are arrays or lists of shape (N,): indices of labels or of choices; for `pearson`, scores.
"""

import math
import unicodedata
from collections import Counter
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np

from minigpt.data.examples import TAGGING, Task, check_task
from minigpt.errors import InputError
from minigpt.evaluation import tags

Interval = tuple[float, float]  # low and high
NORMAL_95 = 1.96  # 95 % of a normal distribution lie within so many standard deviations of its mean


def _arrays(predictions: Any, answers: Any) -> tuple[np.ndarray, np.ndarray]:
    """Both as arrays (N,). Raises InputError where they differ in shape, or are empty."""
    predictions = np.asarray(predictions)
    answers = np.asarray(answers)
    alike = predictions.shape == answers.shape
    flat = answers.ndim == 1
    if not alike or not flat or answers.size == 0:
        given = f"{predictions.shape} predictions for {answers.shape} answers"
        raise InputError(f"{given}: give two flat lists of the same length, 1 or more")
    return predictions, answers


# The measures. Each raises InputError where predictions and answers differ in shape, or are empty.


def accuracy(predictions: Any, answers: Any) -> float:
    """The share of predictions (N,) that equal the answers (N,), from 0 to 1."""
    predictions, answers = _arrays(predictions, answers)
    right = predictions == answers
    return float(right.mean())


def f1(predictions: Any, answers: Any, positive: int = 1) -> float:
    """F1 of the label `positive`: 2 TP / (2 TP + FP + FN), from 0 to 1 (van Rijsbergen 1979). 0 where TP is 0.

    predictions (N,), answers (N,): indices of labels.
    """
    predictions, answers = _arrays(predictions, answers)
    predicted = predictions == positive
    true = answers == positive
    both = predicted & true  # TP
    count = predicted.sum() + true.sum()  # 2 TP + FP + FN
    return float(2 * both.sum() / max(1, count))


def micro_f1(predictions: Any, answers: Any, negative: int = 0) -> float:
    """F1 of all labels but `negative` together: 2 TP / (2 TP + FP + FN), from 0 to 1. 0 where TP is 0.

    KLUE's measure of relations, whose label 0 says that there is none. predictions (N,), answers (N,): indices.
    """
    predictions, answers = _arrays(predictions, answers)
    predicted = predictions != negative
    true = answers != negative
    both = true & (predictions == answers)  # TP
    count = predicted.sum() + true.sum()  # 2 TP + FP + FN
    return float(2 * both.sum() / max(1, count))


def macro_f1(predictions: Any, answers: Any) -> float:
    """The mean of the F1 of each label that is predicted, or right, somewhere, from 0 to 1: KLUE's measure of topics.

    predictions (N,), answers (N,): indices of labels.
    """
    predictions, answers = _arrays(predictions, answers)
    labels = np.union1d(predictions, answers)
    return float(np.mean([f1(predictions, answers, positive=label) for label in labels]))


def matthews(predictions: Any, answers: Any) -> float:
    """The correlation of two labellings, from -1 to 1 (Matthews 1975; for more than two labels: Gorodkin 2004).

    predictions (N,), answers (N,): indices of labels. Of s examples c are right, p_k are predicted to have label k,
    and t_k truly have it:

        (c s - sum p_k t_k) / sqrt((s^2 - sum p_k^2) (s^2 - sum t_k^2))

    0 where all predictions, or all answers, are the same label.
    """
    matrix = confusion(predictions, answers)
    t = matrix.sum(axis=1).tolist()  # Python's integers: exact, whatever their size
    p = matrix.sum(axis=0).tolist()
    c = int(matrix.trace())
    s = sum(t)
    p_spread = s * s - _dot(p, p)
    t_spread = s * s - _dot(t, t)
    product = p_spread * t_spread
    if product == 0:
        return 0.0
    covariance = c * s - _dot(p, t)
    return covariance / math.sqrt(product)


def _dot(a: Sequence[int], b: Sequence[int]) -> int:
    """The sum of the products of integers, exact."""
    total = 0
    for x, y in zip(a, b, strict=True):
        total += x * y
    return total


def pearson(predictions: Any, answers: Any) -> float:
    """The correlation of two lists of scores, cov(x, y) / (std x std y), from -1 to 1 (Pearson 1895).

    predictions (N,), answers (N,): numbers. 0 where one of the lists holds the same number throughout.
    """
    predictions, answers = _arrays(predictions, answers)
    x = predictions.astype(np.float64)
    y = answers.astype(np.float64)
    if np.ptp(x) == 0 or np.ptp(y) == 0:  # tested before the subtraction, whose rounding error would not be 0
        return 0.0
    x = x - x.mean()
    y = y - y.mean()
    x = x / np.linalg.norm(x)
    y = y / np.linalg.norm(y)
    return float(x @ y)


# A task names its measure.


def judge(task: Task, predictions: Any, answers: Any) -> float:
    """The measure that the task names, of predictions (N,) and answers (N,); of a tagging, N lists of names of labels.

    Raises InputError for an unknown measure, and where predictions and answers differ in shape, or are empty.
    """
    check_task(task)
    if task.kind == TAGGING:
        return tags.judge(task.metric, predictions, answers)
    measures: dict[str, Callable[[Any, Any], float]] = {
        "accuracy": accuracy,
        "f1": partial(f1, positive=task.positive),
        "micro_f1": micro_f1,
        "macro_f1": macro_f1,
        "matthews": matthews,
        "pearson": pearson,
    }
    measure = measures[task.metric]
    return measure(predictions, answers)


def best_constant(task: Task, train: Any, answers: Any) -> tuple[Any, float]:
    """The answer that is best by the task's measure if given always; and what it scores on other examples.

    train (N,), answers (M,): the right answers of the examples that it is chosen on, and of those it is judged on. Of
    scores it is their mean. A constant has no correlation: where the measure is one, it scores 0. Of a tagging it is
    the most frequent label.
    """
    if task.kind == TAGGING:
        ((name, _),) = Counter(name for sentence in train for name in sentence).most_common(1)
        return task.labels.index(name), judge(task, [[name] * len(sentence) for sentence in answers], answers)
    train = np.asarray(train)
    answers = np.asarray(answers)
    if task.scored:
        best = float(train.mean())
    else:
        candidates = range(int(train.max()) + 1)
        best = max(candidates, key=lambda answer: judge(task, np.full_like(train, answer), train))
    return best, judge(task, np.full(answers.shape, best), answers)


def interval(task: Task, predictions: Any, answers: Any) -> Interval:
    """The 95 % interval (low, high) of `judge`: Wilson's of an accuracy, by bootstrap of any other measure."""
    if task.metric == "accuracy":
        n = len(answers)
        right = accuracy(predictions, answers) * n
        return wilson(right, n)
    if task.kind == TAGGING:
        _, counts = tags.counts_of(task.metric, predictions, answers)
        reduce = tags.MEASURES[task.metric].reduce
        every = np.arange(len(counts))
        return bootstrap(lambda drawn, _: reduce(counts[drawn].sum(axis=0)), every, every)
    return bootstrap(partial(judge, task), predictions, answers)


# Intervals: (low, high), between which the true value lies in 95 of 100 samples.


def wilson(right: float, n: int, z: float = NORMAL_95) -> Interval:
    """The 95 % interval of a proportion right / n (Wilson 1927): never outside 0 to 1, and not empty at 0 or n."""
    p = right / n
    share = z * z / n
    variance = p * (1 - p) / n
    half = z * math.sqrt(variance + share / (4 * n))
    middle = p + share / 2
    low = (middle - half) / (1 + share)
    high = (middle + half) / (1 + share)
    return max(0.0, low), min(1.0, high)


def bootstrap(
    metric: Callable[[np.ndarray, np.ndarray], float],
    predictions: Any,
    answers: Any,
    seed: int = 0,
    n: int = 1000,
) -> Interval:
    """The 95 % interval of metric(predictions, answers): its 2.5 and 97.5 percentiles over n draws (Efron 1979).

    A draw takes N of the N examples with replacement, by `default_rng(seed)`.
    """
    predictions, answers = _arrays(predictions, answers)
    rng = np.random.default_rng(seed)
    size = len(answers)
    values = []
    for _ in range(n):
        drawn = rng.integers(size, size=size)
        value = metric(predictions[drawn], answers[drawn])
        values.append(value)
    low, high = np.percentile(values, (2.5, 97.5))
    return float(low), float(high)


def mean_interval(
    totals: Sequence[float],
    counts: Sequence[float] | None = None,
) -> tuple[float, float, float]:
    """(mean, low, high): sum(totals) / sum(counts), and its normal 95 % interval by the delta method.

    totals (N,), counts (N,): pairs that are independent draws, such as the loss and the number of tokens of a text.
    counts: 1 each, if not given, which makes it the mean. One pair tells nothing of the spread: -inf to inf.
    """
    if counts is None:
        counts = [1] * len(totals)
    totals = np.asarray(totals, np.float64)
    counts = np.asarray(counts, np.float64)
    n = len(totals)
    size = float(counts.sum())
    mean = float(totals.sum()) / size
    if n == 1:
        return mean, -math.inf, math.inf
    residuals = totals - mean * counts
    squares = (residuals**2).sum()
    deviation = math.sqrt(n / (n - 1) * squares)
    half = NORMAL_95 * deviation / size
    return mean, mean - half, mean + half


# The confusion matrix.


def confusion(predictions: Any, answers: Any, n: int = 0) -> np.ndarray:
    """(n,n) int64: how often each answer (row) received each prediction (column).

    predictions (N,), answers (N,): indices of labels. n: the number of labels, or more; labels that occur always fit.
    """
    predictions, answers = _arrays(predictions, answers)
    largest = max(predictions.max(), answers.max())
    n = max(n, int(largest) + 1)
    cells = n * answers + predictions
    counts = np.bincount(cells, minlength=n * n)
    return counts.reshape(n, n)


def confusion_table(labels: Sequence[str], matrix: np.ndarray) -> str:
    """The confusion matrix (n,n) as a text table; its last column is the share of each answer predicted right."""
    rows = [["answer \\ predicted", *labels, "right"]]
    for label, counts, right in zip(labels, matrix.tolist(), matrix.diagonal(), strict=True):
        share = right / max(1, sum(counts))
        row = [label]
        for count in counts:
            row.append(f"{count:,}")
        row.append(f"{share:.1%}")
        rows.append(row)
    return aligned(rows)


def aligned(rows: Sequence[Sequence[str]]) -> str:
    """The rows of a table as lines of text, every column aligned at its right."""
    widths = []
    for column in zip(*rows, strict=True):
        widths.append(max(_width(cell) for cell in column))
    lines = []
    for row in rows:
        cells = []
        for width, cell in zip(widths, row, strict=True):
            padding = width - _width(cell)
            cells.append(" " * padding + cell)
        lines.append("   ".join(cells))
    return "\n".join(lines)


def _width(text: str) -> int:
    """The columns that a text takes on a terminal: a Korean letter takes two."""
    width = 0
    for letter in text:
        wide = unicodedata.east_asian_width(letter) in "WF"
        width += 2 if wide else 1
    return width

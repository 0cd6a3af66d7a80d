"""The measures: against their definitions counted one by one, by hand, at their edges; intervals that cover."""

import math
from functools import partial

import numpy as np
import pytest

from minigpt.data.examples import Task
from minigpt.errors import InputError
from minigpt.evaluation.metrics import (
    accuracy,
    bootstrap,
    confusion,
    confusion_table,
    f1,
    interval,
    judge,
    macro_f1,
    matthews,
    micro_f1,
    pearson,
    wilson,
)
from minigpt.models.task_model import expected_score, score_targets

MEASURES = (accuracy, f1, micro_f1, macro_f1, matthews, pearson)


def drawn(n=200, labels=2, right=0.7, seed=0) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    answers = rng.integers(labels, size=n)
    return np.where(rng.random(n) < right, answers, rng.integers(labels, size=n)), answers


# --- the measures ----------------------------------------------------------------------------------------------------


def counted(predictions, answers, positive=1) -> tuple[int, int, int, int]:
    """TP, FP, FN, TN, one example after the other."""
    tp = fp = fn = tn = 0
    for predicted, true in zip(predictions, answers, strict=True):
        tp += predicted == positive and true == positive
        fp += predicted == positive and true != positive
        fn += predicted != positive and true == positive
        tn += predicted != positive and true != positive
    return tp, fp, fn, tn


@pytest.mark.parametrize("seed", range(5))
def test_of_two_labels_by_the_definitions(seed):
    predictions, answers = drawn(seed=seed)
    tp, fp, fn, tn = counted(predictions, answers)
    assert accuracy(predictions, answers) == pytest.approx((tp + tn) / 200, abs=1e-15)
    precision, recall = tp / (tp + fp), tp / (tp + fn)
    assert f1(predictions, answers) == pytest.approx(2 * precision * recall / (precision + recall), abs=1e-15)
    below = math.sqrt((tp + fp) * (tp + fn) * (tn + fp) * (tn + fn))
    assert matthews(predictions, answers) == pytest.approx((tp * tn - fp * fn) / below, abs=1e-15)
    # for two labels, Matthews' measure is Pearson's of 0 and 1
    assert matthews(predictions, answers) == pytest.approx(pearson(predictions, answers), abs=1e-14)


@pytest.mark.parametrize("labels", [3, 5])
def test_matthews_of_more_labels_is_the_covariance_of_indicators(labels):
    """Gorodkin's definition: cov(X,Y) / sqrt(cov(X,X) cov(Y,Y)), each summed over the labels' indicators."""
    predictions, answers = drawn(labels=labels)
    x, y = (np.eye(labels)[array] for array in (predictions, answers))
    x, y = x - x.mean(axis=0), y - y.mean(axis=0)
    expected = (x * y).sum() / math.sqrt((x * x).sum() * (y * y).sum())
    assert matthews(predictions, answers) == pytest.approx(expected, abs=1e-14)


def test_f1_of_several_labels_by_hand():
    """Label 0 is right twice, predicted 4 times, and true 3 times; label 1: 1, 2, 2; label 2: 1, 1, 2."""
    predictions, answers = [0, 0, 1, 1, 2, 0, 0], [0, 0, 1, 0, 2, 1, 2]
    assert micro_f1(predictions, answers) == pytest.approx(2 * 2 / (3 + 4))
    assert macro_f1(predictions, answers) == pytest.approx((2 * 2 / (4 + 3) + 2 * 1 / (2 + 2) + 2 * 1 / (1 + 2)) / 3)
    assert micro_f1([0, 1, 1], [1, 0, 1]) == f1([0, 1, 1], [1, 0, 1]), "of two labels it is the F1 of the second"


def test_by_hand():
    predictions, answers = [1, 1, 0, 0, 1], [1, 0, 0, 1, 1]
    assert accuracy(predictions, answers) == 0.6
    assert f1(predictions, answers) == pytest.approx(4 / 6)
    assert f1(predictions, answers, positive=0) == 0.5
    assert matthews(predictions, answers) == pytest.approx(1 / 6)  # (2 x 1 - 1 x 1) / sqrt(3 x 3 x 2 x 2)
    assert confusion(predictions, answers).tolist() == [[1, 1], [1, 2]]
    assert pearson([1.0, 2.0, 3.0], [1.0, 2.0, 4.0]) == pytest.approx(3 / math.sqrt(2 * 14 / 3))


def test_pearson_by_its_definition_and_its_symmetries():
    rng = np.random.default_rng(0)
    x, y = rng.standard_normal((2, 50))
    xs, ys = [a - sum(x) / 50 for a in x], [b - sum(y) / 50 for b in y]
    below = math.sqrt(sum(a * a for a in xs) * sum(b * b for b in ys))
    assert pearson(x, y) == pytest.approx(sum(a * b for a, b in zip(xs, ys, strict=True)) / below, abs=1e-14)
    assert pearson(3 * x + 7, y) == pytest.approx(pearson(y, x), abs=1e-14)
    assert pearson(-x, y) == pytest.approx(-pearson(x, y), abs=1e-14)
    assert pearson(x, x) == pytest.approx(1.0, abs=1e-14)


def test_right_and_wrong_everywhere():
    answers = np.array([0, 1, 1, 0])
    assert [measure(answers, answers) for measure in MEASURES] == pytest.approx([1] * 6)
    assert [measure(1 - answers, answers) for measure in MEASURES] == pytest.approx([0, 0, 0, 0, -1, -1])


def test_degenerate_cases_are_0_and_not_nan():
    answers = np.array([0, 1, 1, 0, 2])
    for constant in (np.zeros(5, int), np.ones(5, int)):
        assert matthews(constant, answers) == matthews(answers, constant) == 0.0
    assert f1([0, 0, 0], [0, 1, 0]) == f1([1, 0, 0], [0, 0, 0]) == f1([0, 0], [0, 0]) == 0.0
    scores = np.array([0.5, 2.0, 3.5])
    tenths = np.full(3, 0.1)
    assert tenths.mean() != 0.1  # the trap: subtracting the mean does not leave zeros
    assert pearson(tenths, scores) == pearson(scores, tenths) == 0.0
    assert [measure([1], [1]) for measure in MEASURES] == [1.0, 1.0, 1.0, 1.0, 0.0, 0.0]
    assert micro_f1([0, 0], [0, 0]) == micro_f1([0, 0], [1, 2]) == micro_f1([1, 2], [0, 0]) == 0.0


def test_matthews_of_many_examples_does_not_overflow():
    answers = np.arange(200_000) % 2
    predictions = np.where(np.arange(200_000) % 10 == 0, 1 - answers, answers)
    assert matthews(predictions, answers) == pytest.approx(pearson(predictions, answers), abs=1e-12)


@pytest.mark.parametrize("measure", MEASURES)
def test_what_cannot_be_compared(measure):
    for predictions, answers in (([1, 0], [1]), ([], []), ([[1]], [[1]])):
        with pytest.raises(InputError, match="predictions for"):
            measure(predictions, answers)


def test_judge_uses_the_measure_and_the_label_that_the_task_names():
    predictions, answers = [1, 1, 0, 0, 1], [1, 0, 0, 1, 1]
    for measure in MEASURES:
        assert judge(Task("similarity", metric=measure.__name__), predictions, answers) == measure(predictions, answers)
    task = Task("classification", ("no", "yes"), "f1", positive=0)
    assert judge(task, predictions, answers) == f1(predictions, answers, positive=0) != f1(predictions, answers)
    with pytest.raises(InputError, match="unknown metric 'bleu'"):
        judge(Task("choice", metric="bleu"), predictions, answers)


@pytest.mark.parity
def test_against_scikit_learn():
    """On 200 draws; the first label is KLUE's no_relation, which its micro-F1 leaves out."""
    theirs = pytest.importorskip("sklearn.metrics")
    for seed in range(200):
        labels = (2, 4, 30)[seed % 3]
        predictions, answers = drawn(labels=labels, right=(seed % 11) / 10, seed=seed)
        for found, expected in (
            (accuracy, theirs.accuracy_score(answers, predictions)),
            (matthews, theirs.matthews_corrcoef(answers, predictions)),
            (f1, theirs.f1_score(answers, predictions, labels=[1], average="macro", zero_division=0)),
            (micro_f1, theirs.f1_score(answers, predictions, labels=range(1, labels), average="micro")),
            (macro_f1, theirs.f1_score(answers, predictions, average="macro", zero_division=0)),
        ):
            assert found(predictions, answers) == pytest.approx(expected, abs=1e-12), (seed, found)
        assert np.array_equal(confusion(predictions, answers, labels),
                              theirs.confusion_matrix(answers, predictions, labels=range(labels)))  # fmt: skip


@pytest.mark.parity
def test_pearson_against_scipy():
    theirs = pytest.importorskip("scipy.stats")
    for seed in range(200):
        rng = np.random.default_rng(seed)
        answers = rng.choice(np.arange(26) / 5, size=50)
        predictions = answers * (seed % 7 - 3) + rng.normal(size=50)
        expected = theirs.pearsonr(predictions, answers).statistic
        assert pearson(predictions, answers) == pytest.approx(expected, abs=1e-12)


# --- intervals -------------------------------------------------------------------------------------------------------


def test_bootstrap_is_seeded_and_drawn_as_said():
    predictions, answers = drawn(60)
    assert bootstrap(f1, predictions, answers) == bootstrap(f1, predictions.tolist(), answers.tolist())
    assert bootstrap(f1, predictions, answers, seed=1) != bootstrap(f1, predictions, answers)
    calls = []
    assert bootstrap(lambda p, a: calls.append((p, a)) or len(calls) - 1, predictions, answers) == (24.975, 974.025)
    assert len(calls) == 1000 and all(len(p) == len(a) == 60 for p, a in calls)
    pairs = set(zip(predictions.tolist(), answers.tolist(), strict=True))
    assert all(set(zip(p.tolist(), a.tolist(), strict=True)) <= pairs for p, a in calls[:20])  # drawn as pairs


def test_bootstrap_agrees_with_wilson_where_both_hold():
    predictions, answers = drawn(2000)
    found = bootstrap(accuracy, predictions, answers)
    assert found == pytest.approx(wilson(accuracy(predictions, answers) * 2000, 2000), abs=0.004)


def test_bootstrap_covers_the_truth_as_often_as_it_says():
    """Scores with a known correlation of 0.6; of 100 samples about 95 intervals hold it."""
    rng, held = np.random.default_rng(0), 0
    for _ in range(100):
        x, noise = rng.standard_normal((2, 150))
        low, high = bootstrap(pearson, x, 0.6 * x + 0.8 * noise, n=100)
        held += low <= 0.6 <= high
    assert 88 <= held <= 99


def test_interval_is_wilson_for_an_accuracy_and_the_bootstrap_for_the_others():
    predictions, answers = drawn(100)
    right = int((predictions == answers).sum())
    assert interval(Task("choice"), predictions, answers) == pytest.approx(wilson(right, 100))
    task = Task("classification", ("no", "yes"), "f1", positive=0)
    assert interval(task, predictions, answers) == bootstrap(partial(judge, task), predictions, answers)
    assert interval(Task("choice"), [1, 1], [1, 1])[0] < 1  # two right answers are no certainty


# --- scores from 0 to 5 ----------------------------------------------------------------------------------------------


def test_score_targets_by_hand():
    classes, weights = score_targets([0, 2.25, 4.75, 5])
    assert classes.tolist() == [[0, 1], [2, 3], [4, 5], [4, 5]]
    assert weights.tolist() == [[1, 0], [0.75, 0.25], [0.25, 0.75], [0, 1]]
    assert classes.dtype == np.int64


def test_score_targets_are_distributions_with_the_score_as_their_mean():
    y = np.linspace(0, 5, 101)
    classes, weights = score_targets(y)
    assert (0 <= classes).all() and (classes <= 5).all() and (0 <= weights).all()
    p = np.zeros((101, 6))
    np.add.at(p, (np.arange(101)[:, None], classes), weights)
    assert p.sum(axis=1) == pytest.approx(np.ones(101), abs=1e-15)
    assert expected_score(p) == pytest.approx(y, abs=1e-14)


@pytest.mark.parametrize("score", [-0.01, 5.01, math.nan, math.inf])
def test_scores_outside_0_to_5(score):
    with pytest.raises(InputError, match="from 0 to 5"):
        score_targets([1, score])


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_expected_score_keeps_the_dtype(dtype):
    p = np.array([[0, 0, 0, 0, 0, 1], [0.5, 0, 0, 0, 0.5, 0]], dtype)
    assert expected_score(p).tolist() == [5, 2] and expected_score(p).dtype == dtype


# --- confusion -------------------------------------------------------------------------------------------------------


def test_confusion_has_answers_in_rows():
    predictions, answers = drawn(300, labels=4)
    naive = np.zeros((4, 4), int)
    for predicted, true in zip(predictions, answers, strict=True):
        naive[true, predicted] += 1
    assert np.array_equal(confusion(predictions, answers), naive)
    assert confusion([0], [2], n=4).tolist() == [[0] * 4, [0] * 4, [1, 0, 0, 0], [0] * 4]


def test_confusion_table():
    matrix = np.array([[1200, 34], [5, 0]])
    assert confusion_table(("no", "maybe"), matrix).split("\n") == [
        "answer \\ predicted      no   maybe   right",
        "                no   1,200      34   97.2%",
        "             maybe       5       0    0.0%",
    ]
    lines = confusion_table(("부정", "아주긍정"), np.array([[1, 0], [0, 0]])).split("\n")
    assert lines[0] == "answer \\ predicted   부정   아주긍정    right"
    assert lines[1] == "              부정      1          0   100.0%"  # a Korean letter is two columns wide
    assert lines[2] == "          아주긍정      0          0     0.0%"  # a label that never came: no 0 / 0

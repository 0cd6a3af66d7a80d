"""From scores to a token: the order of the filters, their edges, and draws that follow the probabilities."""

import math

import numpy as np
import pytest

from minigpt.errors import InputError
from minigpt.models.sampling import NotFinite, check_options, keep_nucleus, keep_top_k, next_tokens, probabilities

LOGITS = np.log(np.array([[0.1, 0.4, 0.05, 0.25, 0.2]]))


def uniform(n, seed=0):
    return np.random.default_rng(seed).random(n)


def rows(logits, n):
    return np.repeat(logits, n, axis=0)


def kept(filtered) -> list:
    return np.flatnonzero(np.isfinite(filtered[0])).tolist()


def test_probabilities():
    p = probabilities(np.array([[1.0, 2, 3], [1000, 1000, -1000]]))
    assert np.abs(p[0] - [0.09003057, 0.24472847, 0.66524096]).max() < 6e-9
    assert p[1].tolist() == [0.5, 0.5, 0]


# --- the draw --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "options", [{}, {"temperature": 2.0}, {"top_k": 3}, {"top_p": 0.9}, {"top_k": 4, "top_p": 0.7}]
)
def test_draws_follow_the_probabilities(options):
    """Counts of 100,000 draws within five standard deviations of what the filtered softmax says."""
    n = 100_000
    z = LOGITS / options.get("temperature", 1.0)
    z = keep_top_k(z, options["top_k"]) if "top_k" in options else z
    p = probabilities(keep_nucleus(z, options["top_p"]) if "top_p" in options else z)[0]
    counts = np.bincount(next_tokens(rows(LOGITS, n), uniform(n), **options), minlength=5)
    assert (np.abs(counts - n * p) <= 5 * np.sqrt(n * p * (1 - p))).all() and (counts[p == 0] == 0).all()


def test_the_draw_is_the_first_token_whose_cumulative_probability_exceeds_the_number():
    edges = np.array([0.0, 0.0999, 0.1001, 0.4999, 0.5001, 0.5499, 0.5501, 0.7999, 0.8001, 1 - 2**-53])
    assert next_tokens(rows(LOGITS, 10), edges).tolist() == [0, 0, 1, 1, 2, 2, 3, 3, 4, 4]


def test_an_impossible_token_is_never_drawn():
    """Not by the smallest number, nor by the largest, and not when rounding leaves the sum off 1."""
    for seed in range(50):
        z = np.random.default_rng(seed).standard_normal((2, 1001)) * 5
        z[:, [0, 1, 500, 999, 1000]] = -np.inf
        drawn = next_tokens(z, np.array([0.0, 1 - 2**-53]))
        assert np.isfinite(z[[0, 1], drawn]).all()


def test_rows_are_drawn_apart():
    z = np.array([[0.0, 50], [50, 0.0], [0.0, 50]])
    assert next_tokens(z, np.array([0.5, 0.5, 0.5])).tolist() == [1, 0, 1]


def test_float32_logits_draw_like_float64():
    z = np.random.default_rng(0).standard_normal((500, 40))
    assert (next_tokens(z.astype(np.float32), uniform(500)) == next_tokens(z, uniform(500))).mean() > 0.99
    before = z.copy()
    next_tokens(z, uniform(500), temperature=0.7, top_k=5, top_p=0.9)
    assert (z == before).all()


@pytest.mark.filterwarnings("error")
def test_extreme_scores():
    z = np.array([[1e4, -1e4, 0.0]], np.float32)
    for options in ({}, {"temperature": 1e-9}, {"temperature": 1e9, "top_k": 1}, {"top_k": 2, "top_p": 0.5}):
        assert next_tokens(z, np.array([0.7]), **options).tolist() == [0]


@pytest.mark.parametrize("options", [{"top_k": 3}, {"top_p": 0.6}, {"top_k": 20, "top_p": 0.3}])
def test_rows_that_keep_other_tokens_are_drawn_as_if_alone(options):
    z = np.random.default_rng(2).standard_normal((40, 60)) * 3
    numbers = uniform(40)
    alone = [int(next_tokens(z[i : i + 1], numbers[i : i + 1], **options)[0]) for i in range(40)]
    assert next_tokens(z, numbers, **options).tolist() == alone and len(set(alone)) > 20


@pytest.mark.parametrize("options", [{}, {"top_k": 2}, {"top_p": 0.5}])
def test_what_is_not_finite_is_refused_by_every_filter(options):
    for row in ([np.nan] * 3, [1, np.nan, 2], [np.inf, 1, 2], [-np.inf] * 3):
        with pytest.raises(NotFinite):
            next_tokens(np.array([row, [1.0, 2, 3]]), uniform(2), **options)
        with pytest.raises(NotFinite):
            next_tokens(np.array([row]), uniform(1), **options)


# --- temperature, top-k, nucleus -------------------------------------------------------------------------------------


def test_temperature():
    assert next_tokens(LOGITS, np.array([0.99]), temperature=0).tolist() == [1]
    n = 50_000
    shares = [
        (next_tokens(rows(LOGITS, n), uniform(n), temperature=t) == 1).mean() for t in (0.25, 0.5, 1.0, 2.0, 100.0)
    ]
    for share, t in zip(shares, (0.25, 0.5, 1.0, 2.0, 100.0), strict=True):
        powers = np.exp(LOGITS[0]) ** (1 / t)
        assert abs(share - powers[1] / powers.sum()) < 5 * math.sqrt(0.25 / n)
    assert shares == sorted(shares, reverse=True)


def test_top_k_keeps_ties_at_the_threshold():
    z = np.array([[3.0, 1, 2, 2, 0]])
    assert [kept(keep_top_k(z, k)) for k in (1, 2, 3, 4, 5, 99)] == [
        [0], [0, 2, 3], [0, 2, 3], [0, 1, 2, 3], [0, 1, 2, 3, 4], [0, 1, 2, 3, 4]
    ]  # fmt: skip
    both = keep_top_k(np.array([[1.0, 2, 3], [3.0, 2, 1]]), 1)
    assert np.isfinite(both).tolist() == [[False, False, True], [True, False, False]]


def test_nucleus_keeps_what_is_inside_p_and_at_least_one():
    """Sorted: 0.4, 0.25, 0.2, 0.1, 0.05. What is kept weighs at most p, as in GPT-2's code."""
    for p, expected in (
        (0.01, [1]), (0.39, [1]), (0.41, [1]), (0.64, [1]), (0.66, [1, 3]), (0.84, [1, 3]), (0.86, [1, 3, 4]),
        (0.94, [1, 3, 4]), (0.96, [0, 1, 3, 4]), (1.0, [0, 1, 2, 3, 4]),
    ):  # fmt: skip
        assert kept(keep_nucleus(LOGITS, p)) == expected, p


def test_nucleus_of_random_rows_against_its_definition():
    rng = np.random.default_rng(0)
    z, p = rng.standard_normal((200, 30)) * 2, 0.7
    for row, filtered in zip(z, keep_nucleus(z, p), strict=True):
        order = np.argsort(-row)
        c = np.cumsum(np.exp(row[order]) / np.exp(row).sum())
        last = max(int((c <= p).sum()) - 1, 0)
        assert set(np.flatnonzero(np.isfinite(filtered))) == set(order[: last + 1])
        assert (filtered[np.isfinite(filtered)] == row[np.isfinite(filtered)]).all()


def test_a_nucleus_of_1_keeps_all():
    """Also where the sum of 50,257 probabilities is a little more than 1."""
    for seed in range(3):
        z = np.random.default_rng(seed).standard_normal((1, 50257)) * 3
        assert np.isfinite(keep_nucleus(z, 1.0)).all()


def test_nucleus_keeps_ties_at_the_threshold():
    assert kept(keep_nucleus(np.log(np.array([[0.4, 0.2, 0.2, 0.2]])), 0.65)) == [0, 1, 2, 3]


def test_the_order_is_temperature_then_top_k_then_nucleus():
    """A nucleus of 0.66 holds the two likeliest of the whole row, but one of the two that top-k 2 leaves, which weigh
    0.615 and 0.385. And a temperature that flattens comes before both."""
    n = 2000
    alone = next_tokens(rows(LOGITS, n), uniform(n), top_k=2, top_p=0.66)
    assert set(alone) == {1}
    assert set(next_tokens(rows(LOGITS, n), uniform(n), top_p=0.66)) == {1, 3}
    assert set(next_tokens(rows(LOGITS, n), uniform(n), top_p=0.66, temperature=100.0)) == {1, 3, 4}


# --- options ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"temperature": -0.1}, "temperature -0.1: give 0"),
        ({"temperature": math.nan}, "temperature nan"),
        ({"top_k": 0}, "top-k 0: give 1 or more"),
        ({"top_k": -3}, "top-k -3"),
        ({"top_p": 0.0}, "top-p 0.0: give a probability above 0 and up to 1"),
        ({"top_p": 1.01}, "top-p 1.01"),
        ({"top_p": math.nan}, "top-p nan"),
    ],
)
def test_options_out_of_range_are_refused(options, message):
    with pytest.raises(InputError) as caught:
        next_tokens(LOGITS, np.array([0.5]), **options)
    assert str(caught.value).startswith(message)


def test_options_in_range_are_accepted():
    check_options(0.0, None, None)
    check_options(2.5, 1, 1.0)
    assert next_tokens(LOGITS, np.array([0.5]), top_k=10**9, top_p=1.0).shape == (1,)

"""Exercise 19: scores of answers (lesson 19, sections 2, 4 and 5).

Four functions, each of a few lines. Mind the places: logits[t] are the scores of token t + 1. Mind the ties: whoever
cannot tell must not gain by the order of the candidates. And mind the exponential: the unit is changed before it.

Judge it:  python lessons/exercises/19_tasks_as_text.py
"""

import math

import numpy as np


def answer_log_p(logits, ids, n_context):
    """logits (T,V) of a model that has read ids (T,) -> (T - n_context,): log P of each token from n_context on"""
    ...  # your turn


def points(scores, answer):
    """scores: a list, one for each candidate -> 1 if the answer's is the highest; those that tie share the point"""
    ...  # your turn


def windows(n, context, stride):
    """[(begin, first), ...]: a window sees the tokens from begin on, and predicts up to begin + context

    first: the first token that it is the first to predict. Each of the tokens 1 to n - 1 must be predicted once.
    """
    ...  # your turn


def units(nats, text):
    """nats: -log P of the whole text -> (perplexity per word, bits per byte of UTF-8)"""
    ...  # your turn


def judge():
    """Yields what is asked, your answer, the right one."""
    rng = np.random.default_rng(0)
    p = rng.dirichlet(np.ones(5), size=6)
    ids = np.array([3, 0, 4, 1, 2, 2])
    for n_context in (1, 4):
        right = [math.log(p[t - 1, ids[t]]) for t in range(n_context, 6)]
        what = f"answer_log_p of 6 tokens, {n_context} of them context"
        yield what, answer_log_p(np.log(p) + 7, ids, n_context), right
    large = answer_log_p(np.array([[1000.0, 0], [0, 1000]]), np.array([0, 1]), 1)
    yield "answer_log_p, logits of 1000", large, [-1000.0]

    yield "points([-3, -2], 1)", points([-3.0, -2.0], 1), 1
    yield "points([-3, -2], 0)", points([-3.0, -2.0], 0), 0
    yield "points([-2, -2], 0), a tie", points([-2.0, -2.0], 0), 1 / 2
    yield "points([-9, -2, -2, -2], 0), a tie of others", points([-9.0, -2.0, -2.0, -2.0], 0), 0
    yield "points([-2, -2, -5, -2], 3), a tie of three", points([-2.0, -2.0, -5.0, -2.0], 3), 1 / 3

    yield "windows(9, 4, 4)", windows(9, 4, 4), [(0, 1), (4, 5)]
    yield "windows(9, 4, 2)", windows(9, 4, 2), [(0, 1), (2, 5), (4, 7)]
    yield "windows(10, 4, 4), a rest", windows(10, 4, 4), [(0, 1), (4, 5), (8, 9)]
    yield "windows(4, 8, 8), a short text", windows(4, 8, 8), [(0, 1)]
    yield "windows(7, 4, 1)", windows(7, 4, 1), [(0, 1), (1, 5), (2, 6)]

    yield "units of a fair guess among 8 at each of 3 words", units(3 * math.log(8), "a bc d"), (8, 9 / 6)
    yield "units of a Korean text", units(6 * math.log(2), "나는 간다"), (8, 6 / 13)


if __name__ == "__main__":
    for what, yours, right in judge():
        if yours is None:
            raise SystemExit(f"{what}: returns nothing yet")
        if np.shape(yours) != np.shape(right) or not np.allclose(yours, right):
            raise SystemExit(f"{what}:\nyours is {yours}\nright is {right}")
        print(f"{what}: right")
    print("all of it is right")

"""Exercise 12: from scores to a token (lesson 12, section 2).

Write the three functions for a batch: logits (B,V), one row for each text. No loop over tokens is needed. The nucleus
is the *paper's*: the smallest set of likeliest tokens whose probability reaches p. Mind the edges: ties in top-k, a p
of 1, a u of 0 where the first tokens are impossible, and a u so near to 1 that a rounded sum does not reach it.

Judge it:  python lessons/exercises/12_sampling.py
"""

import numpy as np


def probabilities(logits):
    """logits (B,V) -> p (B,V), the softmax; a logit of -inf gives 0"""
    e = np.exp(logits - logits.max(axis=-1, keepdims=True))
    return e / e.sum(axis=-1, keepdims=True)


def keep_top_k(logits, k):
    """logits (B,V) -> (B,V): below the k-th largest of its row, each becomes -inf; ties with it stay"""
    ...  # your turn


def keep_nucleus(logits, p):
    """logits (B,V) -> (B,V): outside the smallest set of likeliest tokens that reaches p, each becomes -inf"""
    ...  # your turn


def draw(p, u):
    """p (B,V), u (B,) in [0, 1) -> tokens (B,): the piece of the stick that u hits"""
    ...  # your turn


def judge():
    """Yields what is asked, your answer, the right one."""
    gone = -np.inf
    two = np.array([[1.0, 3, 2, 0], [5, 5, 4, 5]])
    yield "keep_top_k(two rows, 1)", keep_top_k(two.copy(), 1), [[gone, 3, gone, gone], [5, 5, gone, 5]]
    yield "keep_top_k(two rows, 2), with ties", keep_top_k(two.copy(), 2), [[gone, 3, 2, gone], [5, 5, gone, 5]]
    yield "keep_top_k(two rows, 4)", keep_top_k(two.copy(), 4), two

    p = np.array([[0.1, 0.5, 0.15, 0.25], [0.97, 0.01, 0.01, 0.01]])
    for top_p, first, second in (
        (0.4, [0, 1, 0, 0], [1, 0, 0, 0]),
        (0.6, [0, 1, 0, 1], [1, 0, 0, 0]),
        (0.8, [0, 1, 1, 1], [1, 0, 0, 0]),
        (0.95, [1, 1, 1, 1], [1, 0, 0, 0]),
        (1.0, [1, 1, 1, 1], [1, 1, 1, 1]),
    ):
        yours = keep_nucleus(np.log(p), top_p)
        yield f"keep_nucleus, p = {top_p}: which stay", None if yours is None else np.isfinite(yours), [first, second]

    sure = np.array([[0, 0.5, 0, 0.5, 0]])
    yield "draw at u = 0.8", draw(np.array([[0.5, 0.25, 0.15, 0.1]]), np.array([0.8])), [2]
    yield "draw, a batch of three", draw(np.repeat(sure, 3, 0), np.array([0.2, 0.5, 0.9])), [1, 3, 3]
    yield "draw at u = 0, token 0 impossible", draw(sure, np.array([0.0])), [1]
    yield "draw at the largest u, last token impossible", draw(sure, np.array([1 - 2**-53])), [3]
    flat = np.full((1, 40478), 1 / 40478, np.float32)
    near_the_end = [40_000 < i < 40_478 for i in draw(flat, np.array([0.9999]))]
    yield "draw at u = 0.9999 from 40,478 equal float32 is near the end", near_the_end, [True]


def frequencies():
    """Chi-square of your draws, in standard deviations from what a right sampler gives (lesson 12, section 5)"""
    rng = np.random.default_rng(1)
    p = rng.uniform(1, 9, size=50)
    p = p / p.sum()
    n = 100_000
    counts = np.bincount(draw(np.broadcast_to(p, (n, 50)), rng.random(n)), minlength=50)
    return (((counts - n * p) ** 2 / (n * p)).sum() - 49) / np.sqrt(2 * 49)


if __name__ == "__main__":
    for what, yours, right in judge():
        if yours is None:
            raise SystemExit(f"{what}: returns nothing yet")
        if np.shape(yours) != np.shape(right) or not np.array_equal(yours, right):
            raise SystemExit(f"{what}:\nyours is\n{np.asarray(yours)}\nright is\n{np.asarray(right)}")
        print(f"{what}: right")
    off = frequencies()
    if not abs(off) < 5:
        raise SystemExit(f"the frequencies of 100,000 draws are {off:+.0f} standard deviations off")
    print(f"frequencies: right ({off:+.1f} standard deviations off)\nall of it is right")

"""Exercise 13: the backward of two heads that the lesson did not print (lesson 13, sections 2 and 3).

A *similarity* is read in both directions, and the two states are added before the head. A *score* from 0 to 5 (Tai,
Socher and Manning 2015) is a distribution over six classes: 3.4 is 0.6 of class 3 and 0.4 of class 4, and the loss is
the cross-entropy with this distribution.

The forwards are there. Replace what is marked "your turn", from the top: each gradient stands under the forward line
that it undoes. Run this file to see which line is the first wrong one:

    python lessons/exercises/13_two_heads.py
"""

import numpy as np


def similarity_forward(h_ab, h_ba, w, b, rows, last):
    """h_ab, h_ba (N,T,C): the states of "a $ b" and of "b $ a"; w (C,K), b (K,) -> scores (N,K)"""
    first = h_ab[rows, last]
    second = h_ba[rows, last]
    states = first + second
    products = states @ w
    scores = products + b
    return scores


def similarity_backward(dout, v):
    """dout (N,K) -> dh_ab (N,T,C), dh_ba (N,T,C), dw (C,K), db (K,)"""
    # scores = products + b
    dproducts = None  # your turn
    db = None  # your turn
    # products = states @ w
    dstates = None  # your turn
    dw = None  # your turn
    # states = first + second
    dfirst = None  # your turn
    dsecond = None  # your turn
    # second = h_ba[rows, last]
    dh_ba = None  # your turn
    # first = h_ab[rows, last]
    dh_ab = None  # your turn
    return dh_ab, dh_ba, dw, db


def score_forward(scores, rows, low, share):
    """scores (N,6) -> nats (N,). The target is `share` (N,) of class `low` (N,) and 1 - share of class low + 1"""
    e = np.exp(scores)
    total = e.sum(axis=-1, keepdims=True)
    log_p = scores - np.log(total)
    at_low = log_p[rows, low]
    at_high = log_p[rows, low + 1]
    nats = -(share * at_low + (1 - share) * at_high)
    return nats


def score_backward(dout, v):
    """dout (N,) -> dscores (N,6), in two lines: what the lesson calls "p minus one-hot", with another target"""
    target = None  # your turn, (N,6)
    dscores = None  # your turn
    return (dscores,)


# --- the judge: nothing below is yours --------------------------------------------------------------------------------


def main() -> int:
    """Judge every line of both; the exit status."""
    from minigpt.learn import lines

    rng = np.random.default_rng(13)
    n, t, c, k = 3, 4, 5, 2
    h_ab, h_ba = rng.normal(size=(n, t, c)), rng.normal(size=(n, t, c))
    w, b = rng.normal(size=(c, k)), rng.normal(size=k)
    rows, last = np.arange(n), np.array([3, 1, 2])
    results = lines.check(similarity_forward, similarity_backward, h_ab, h_ba, w, b, rows, last)
    if lines.exit_status(results):
        return 1
    y = np.array([3.4, 0.0, 4.75])
    low = np.floor(y).astype(int)
    constants = {"rows": rows, "low": low, "share": low + 1 - y}
    results = lines.check(score_forward, score_backward, rng.normal(size=(n, 6)), **constants)
    return lines.exit_status(results)


if __name__ == "__main__":
    raise SystemExit(main())

"""Exercise 03: attention with a window, and a learned bias for each distance (lesson 03).

Position t sees itself and the WINDOW - 1 positions before it. To the score of t and s, a number is added that depends
only on their distance t - s: bias[0] for t itself, bias[1] for the one before, and so on. The bias is learned, so it
needs a gradient, and one number of it is used by many pairs (t, s).

The forward is complete. Replace what is marked "your turn", line by line. The first line that is wrong is named:

    python lessons/exercises/03_attention.py
"""

import math

import numpy as np

T, D, WINDOW = 6, 4, 3
DISTANCE = np.arange(T)[:, None] - np.arange(T)  # DISTANCE[t, s] = t - s
SEEN = (DISTANCE >= 0) & (DISTANCE < WINDOW)  # SEEN[t, s]: may t see s?
INDEX = np.where(SEEN, DISTANCE, 0)  # which number of the bias the pair (t, s) uses


def softmax(s):
    e = np.exp(s - s.max(axis=-1, keepdims=True))
    return e / e.sum(axis=-1, keepdims=True)


def forward(q, k, v, bias):
    """q (T,D), k (T,D), v (T,D), bias (WINDOW,) -> out (T,D)"""
    raw = q @ k.T / math.sqrt(D)
    added = bias[INDEX]
    near = raw + added
    s = np.where(SEEN, near, -np.inf)
    p = softmax(s)
    out = p @ v
    return out


def backward(dout, kept):
    """dout (T,D) -> dq (T,D), dk (T,D), dv (T,D), dbias (WINDOW,); kept.p is the p of the forward"""
    # out = p @ v
    dp = ...  # your turn
    dv = ...  # your turn
    # p = softmax(s)
    ds = ...  # your turn
    # s = where(SEEN, near, -inf)
    dnear = ...  # your turn
    # near = raw + added
    draw = ...  # your turn
    dadded = ...  # your turn
    # added = bias[INDEX]
    dbias = ...  # your turn
    # raw = q @ k.T / sqrt(D)
    dq = ...  # your turn
    dk = ...  # your turn
    return dq, dk, dv, dbias


# --- the judge: nothing below is yours --------------------------------------------------------------------------------


if __name__ == "__main__":
    from minigpt.learn import lines

    q, k, v = np.random.default_rng(0).normal(size=(3, T, D))
    results = lines.check(forward, backward, q, k, v, np.array([0.5, -1.0, 0.3]))
    raise SystemExit(lines.exit_status(results))

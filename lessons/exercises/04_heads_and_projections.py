"""Exercise 04: grouped-query attention (lesson 04).

There are NH = 6 heads of queries, but only G = 2 heads of keys and values: each serves a group of three query heads.
So k and v, which a model must keep for every position when it writes a text, are three times smaller. Query heads 0,
1, 2 use the first keys and values, query heads 3, 4, 5 the second.

The forward is complete. Replace what is marked "your turn", line by line. The first line that is wrong is named:

    python lessons/exercises/04_heads_and_projections.py
"""

import math

import numpy as np

B, NH, G, T, D = 2, 6, 2, 4, 3  # texts, query heads, heads of keys and values, positions, size of a head
MASK = np.tril(np.ones((T, T), bool))


def softmax(s):
    e = np.exp(s - s.max(axis=-1, keepdims=True))
    return e / e.sum(axis=-1, keepdims=True)


def forward(q, k, v):
    """q (B,NH,T,D), k (B,G,T,D), v (B,G,T,D) -> out (B,NH,T,D)"""
    many_k = np.repeat(k, NH // G, axis=1)  # (B,NH,T,D): head 0 three times, then head 1 three times
    many_v = np.repeat(v, NH // G, axis=1)
    raw = q @ many_k.swapaxes(-1, -2) / math.sqrt(D)
    s = np.where(MASK, raw, -np.inf)
    p = softmax(s)
    out = p @ many_v
    return out


def backward(dout, kept):
    """dout (B,NH,T,D) -> dq (B,NH,T,D), dk (B,G,T,D), dv (B,G,T,D); kept.p is the p of the forward"""
    # out = p @ many_v
    dp = ...  # your turn
    dmany_v = ...  # your turn
    # p = softmax(s)
    ds = ...  # your turn
    # s = where(MASK, raw, -inf)
    draw = ...  # your turn
    # raw = q @ many_k^T / sqrt(D)
    dq = ...  # your turn
    dmany_k = ...  # your turn
    # many_v = repeat(v), many_k = repeat(k)
    dv = ...  # your turn
    dk = ...  # your turn
    return dq, dk, dv


# --- the judge: nothing below is yours --------------------------------------------------------------------------------


if __name__ == "__main__":
    from minigpt.learn import lines

    rng = np.random.default_rng(0)
    arrays = [rng.normal(size=(B, heads, T, D)) for heads in (NH, G, G)]
    raise SystemExit(lines.exit_status(lines.check(forward, backward, *arrays)))

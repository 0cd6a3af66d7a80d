"""Exercise 03: find the bug (lesson 03).

An attention that keeps lse[t] = log sum_s exp(s[t,s]), T numbers, in place of p, T x T numbers. Its backward pass
computes p again from the scores and lse. With the surprise of section 4 it needs no sum over keys. The forward is
right. The backward is right too, as long as every query sees every key; with a causal mask its gradients are wrong.
Which line is the reason? Before you change it, print a sum that must be 1 for every row.

    minigpt check lessons/exercises/03_find_the_bug.py
"""

import math

import numpy as np

from minigpt import ops


def attention_forward(q, k, v, *, mask=None, rate=0.0, key=None):
    """q (*,T,D), k (*,S,D), v (*,S,D) -> out (*,T,D)"""
    if key is not None:
        return NotImplemented  # dropout on the shares: the library does that
    if mask is None:
        mask = ops.causal_mask(q.shape[-2], k.shape[-2], np)
    s = q @ k.swapaxes(-1, -2) / math.sqrt(q.shape[-1])
    s = np.where(mask, s, -math.inf)
    largest = s.max(axis=-1, keepdims=True)
    largest = np.where(largest == -math.inf, 0, largest)
    z = np.exp(s - largest).sum(axis=-1, keepdims=True)
    z = np.where(z == 0, 1, z)  # 0: a query that may see nothing
    lse = largest + np.log(z)
    out = np.exp(s - lse) @ v
    return out, (q, k, v, out, lse, mask)


def attention_backward(dout, cache):
    """dout (*,T,D) -> dq (*,T,D), dk (*,S,D), dv (*,S,D)"""
    q, k, v, out, lse, mask = cache
    # p once more
    s = q @ k.swapaxes(-1, -2) / math.sqrt(q.shape[-1])
    p = np.exp(s - lse)
    # out = p @ v
    dp = dout @ v.swapaxes(-1, -2)
    dv = p.swapaxes(-1, -2) @ dout
    # p = softmax(s), with the surprise
    ds = p * (dp - (dout * out).sum(axis=-1, keepdims=True))
    # s = q @ k^T / sqrt(D)
    ds = ds / math.sqrt(q.shape[-1])
    dq = ds @ k
    dk = ds.swapaxes(-1, -2) @ q
    return dq, dk, dv


# --- the judge: nothing below is yours --------------------------------------------------------------------------------


if __name__ == "__main__":
    from minigpt.learn.judging.check_file import main

    raise SystemExit(main(__file__))

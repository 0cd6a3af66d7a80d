"""Exercise 03: attention, and its backward (lesson 03).

The forward is complete: it takes any mask, and there may be more keys than queries, so the first lines of the lesson
are a little longer here. The backward is yours. Replace what is marked "your turn", then let the library's own tests
judge you:

    minigpt check lessons/exercises/03_attention.py
"""

import math

import numpy as np

from minigpt import ops


def attention_forward(q, k, v, *, mask=None, rate=0.0, key=None):
    """q (*,T,D), k (*,S,D), v (*,S,D) -> out (*,T,D)

    out = p v,   p = softmax(s),   s = q k^T / sqrt(D), where a query sees only what the mask allows.
    """
    if key is not None:
        return NotImplemented  # dropout on the shares: the library does that
    if mask is None:
        mask = ops.causal_mask(q.shape[-2], k.shape[-2], np)
    s = q @ k.swapaxes(-1, -2) / math.sqrt(q.shape[-1])
    s = np.where(mask, s, -math.inf)
    largest = s.max(axis=-1, keepdims=True)
    e = np.exp(s - np.where(largest == -math.inf, 0, largest))
    z = e.sum(axis=-1, keepdims=True)
    p = e / np.where(z == 0, 1, z)  # z is 0 for a query that may see nothing: it gets 0
    out = p @ v
    return out, (q, k, v, p)


def attention_backward(dout, cache):
    """dout (*,T,D) -> dq (*,T,D), dk (*,S,D), dv (*,S,D)

    Once every check is happy, try the surprise of section 4: what must the cache hold then? After that try exercise 4:
    no p in the cache at all.
    """
    q, k, v, p = cache
    # out = p @ v
    ...  # your turn: dp (*,T,S)
    dv = ...  # your turn
    # p = softmax(s)
    ...  # your turn: ds (*,T,S)
    # s = q @ k^T / sqrt(D)
    dq = ...  # your turn
    dk = ...  # your turn
    return dq, dk, dv


if __name__ == "__main__":
    from minigpt.learn.check_file import main

    raise SystemExit(main(__file__))

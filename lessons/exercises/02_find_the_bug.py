"""Exercise 02: find the bug (lesson 02).

This cross-entropy is right for a batch of one position, and wrong for two. Section 3 of the lesson says what every row
of the gradient must sum to. Print these sums for one position and for two: they show where to look. One character is
to be changed. Then let the library's own tests judge you:

    minigpt check lessons/exercises/02_find_the_bug.py
"""

import numpy as np


def cross_entropy_forward(logits, targets, *, weights=None, normalizer=None):
    """logits (*,V), targets (*) int -> loss ()"""
    z, y = logits.reshape(-1, logits.shape[-1]), targets.reshape(-1)
    w = np.ones(len(y)) if weights is None else weights.reshape(-1)
    w = np.where(y == -100, 0, w).astype(z.dtype)
    y, n = np.where(y == -100, 0, y), np.arange(len(y))
    share = (w / (w.sum() if normalizer is None else normalizer)).astype(z.dtype)

    s = z - z.max(axis=-1, keepdims=True)
    e = np.exp(s)
    total = e.sum(axis=-1, keepdims=True)
    loss = (share * (np.log(total[:, 0]) - s[n, y])).sum()
    return loss, (e / total, y, share, logits.shape)


def cross_entropy_backward(dloss, cache):
    """dloss () -> dlogits (*,V)"""
    p, y, share, shape = cache
    n = np.arange(len(y))
    dz = p[n].copy()
    # lse - s[n, y]: the slope of lse is p; the right answer's own entry has 1 less
    dz[:, y] -= 1
    # loss = sum(share * ...)
    dz *= (share * dloss)[:, None]
    return dz.reshape(shape)


# --- the judge: nothing below is yours --------------------------------------------------------------------------------


if __name__ == "__main__":
    from minigpt.learn.judging.check_file import main

    raise SystemExit(main(__file__))

import numpy as np


def attend(q, k, v):
    """q (NH,T,D), k, v (NH,S,D) -> out (NH,T,D): the queries are those of the last T of S positions"""
    t, s = q.shape[1], k.shape[1]
    scores = q @ k.swapaxes(-1, -2) / np.sqrt(q.shape[-1])
    if t > 1:  # a single query is the last position, and sees all
        visible = np.tri(t, s, s - t, dtype=bool)
        scores = np.where(visible, scores, -np.inf)
    e = np.exp(scores - scores.max(axis=-1, keepdims=True))
    return e / e.sum(axis=-1, keepdims=True) @ v

import numpy as np

from minigpt import ops


def pairs_forward(h, w, b, w_scores, b_scores, follows):
    """h (B,T,C), follows (B,) int: 0 or 1 -> out (), the loss"""
    first = h[:, 0]
    x = first @ w + b
    pooled = np.tanh(x)
    scores = pooled @ w_scores + b_scores
    out, ce = ops.cross_entropy_forward(scores, follows)
    return out


def pairs_backward(dout, v):
    # out = cross_entropy(scores, follows)
    dscores = ops.cross_entropy_backward(dout, v.ce)
    # scores = pooled @ w_scores + b_scores
    dw_scores = v.pooled.T @ dscores
    db_scores = dscores.sum(axis=0)
    dpooled = dscores @ v.w_scores.T
    # pooled = np.tanh(x)
    dx = dpooled * (1 - v.pooled**2)
    # x = first @ w + b
    dw = v.first.T @ dx
    db = dx.sum(axis=0)
    dfirst = dx @ v.w.T
    # first = h[:, 0]
    dh = np.concatenate([dfirst[:, None], np.zeros_like(v.h[:, 1:])], axis=1)
    return dh, dw, db, dw_scores, db_scores

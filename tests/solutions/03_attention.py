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
    dp = dout @ kept.v.T
    dv = kept.p.T @ dout
    # p = softmax(s)
    ds = kept.p * (dp - (kept.p * dp).sum(axis=-1, keepdims=True))
    # s = where(SEEN, near, -inf)
    dnear = np.where(SEEN, ds, 0)
    # near = raw + added
    draw = dnear
    dadded = dnear
    # added = bias[INDEX]
    dbias = np.array([dadded[SEEN & (DISTANCE == d)].sum() for d in range(WINDOW)])
    # raw = q @ k.T / sqrt(D)
    dq = draw @ kept.k / math.sqrt(D)
    dk = draw.T @ kept.q / math.sqrt(D)
    return dq, dk, dv, dbias

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
    dp = dout @ kept.many_v.swapaxes(-1, -2)
    dmany_v = kept.p.swapaxes(-1, -2) @ dout
    # p = softmax(s)
    ds = kept.p * (dp - (kept.p * dp).sum(axis=-1, keepdims=True))
    # s = where(MASK, raw, -inf)
    draw = np.where(MASK, ds, 0)
    # raw = q @ many_k^T / sqrt(D)
    dq = draw @ kept.many_k / math.sqrt(D)
    dmany_k = draw.swapaxes(-1, -2) @ kept.q / math.sqrt(D)
    # many_v = repeat(v), many_k = repeat(k)
    dv = dmany_v.reshape(B, G, NH // G, T, D).sum(axis=2)
    dk = dmany_k.reshape(B, G, NH // G, T, D).sum(axis=2)
    return dq, dk, dv

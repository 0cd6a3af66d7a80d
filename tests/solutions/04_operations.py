import math

import numpy as np


def split(x, n_head):
    b, t, c = x.shape
    return x.reshape(b, t, n_head, c // n_head).swapaxes(1, 2)


def merge(x):
    b, n_head, t, d = x.shape
    return x.swapaxes(1, 2).reshape(b, t, n_head * d)


def self_attention_forward(qkv, n_head):
    q, k, v = (split(part, n_head) for part in np.split(qkv, 3, axis=-1))
    t = q.shape[-2]
    scores = q @ k.swapaxes(-1, -2) / math.sqrt(q.shape[-1])
    scores = np.where(np.tri(t, dtype=bool), scores, -np.inf)
    e = np.exp(scores - scores.max(axis=-1, keepdims=True))
    p = (e / e.sum(axis=-1, keepdims=True)).astype(qkv.dtype)
    return merge(p @ v), (q, k, v, p)


def self_attention_backward(dout, cache):
    q, k, v, p = cache
    dheads = split(dout, q.shape[1])
    dv = p.swapaxes(-1, -2) @ dheads
    dp = dheads @ v.swapaxes(-1, -2)
    ds = p * (dp - (p * dp).sum(axis=-1, keepdims=True)) / math.sqrt(q.shape[-1])
    dq, dk = ds @ k, ds.swapaxes(-1, -2) @ q
    return np.concatenate([merge(dq), merge(dk), merge(dv)], axis=-1)

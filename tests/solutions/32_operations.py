import math

import numpy as np


def split(x, n_head):
    b, t, c = x.shape
    return x.reshape(b, t, n_head, c // n_head).swapaxes(1, 2)


def merge(x):
    b, n_head, t, d = x.shape
    return x.swapaxes(1, 2).reshape(b, t, n_head * d)


def cross_attention_forward(q, kv, n_head):
    q = split(q, n_head)
    k, v = (split(part, n_head) for part in np.split(kv, 2, axis=-1))
    scores = q @ k.swapaxes(-1, -2) / math.sqrt(q.shape[-1])
    e = np.exp(scores - scores.max(axis=-1, keepdims=True))
    p = (e / e.sum(axis=-1, keepdims=True)).astype(q.dtype)
    return merge(p @ v), (q, k, v, p)


def cross_attention_backward(dout, cache):
    q, k, v, p = cache
    dheads = split(dout, q.shape[1])
    dv = p.swapaxes(-1, -2) @ dheads
    dp = dheads @ v.swapaxes(-1, -2)
    ds = p * (dp - (p * dp).sum(axis=-1, keepdims=True)) / math.sqrt(q.shape[-1])
    dk = ds.swapaxes(-1, -2) @ q
    return merge(ds @ k), np.concatenate([merge(dk), merge(dv)], axis=-1)


def rmsnorm_forward(x, g, *, eps=1e-6):
    r = 1 / np.sqrt((x**2).mean(axis=-1, keepdims=True) + eps)
    x_hat = (x * r).astype(x.dtype)
    return g * x_hat, (x_hat, g, r)


def rmsnorm_backward(dout, cache):
    x_hat, g, r = cache
    d = dout * g
    dx = r * (d - x_hat * (d * x_hat).mean(axis=-1, keepdims=True))
    return dx.astype(dout.dtype), (dout * x_hat).sum(axis=tuple(range(dout.ndim - 1)))

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
    p = np.where(mask, np.exp(np.where(mask, s, 0) - lse), 0)
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

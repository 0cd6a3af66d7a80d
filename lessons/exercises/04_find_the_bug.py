"""Exercise 04: find the bug (lesson 04).

Self-attention on the packed qkv, with the surprise of lesson 03 in its backward. With one head it is right, and so is
its gradient of v with any number of heads. With three heads the gradients of q and k are wrong. Which line does not
know that there are heads? Before you change it, think of a sum that is 0 in a right backward, and print it here.

    minigpt check lessons/exercises/04_find_the_bug.py
"""

import math

import numpy as np

from minigpt import ops


def self_attention_forward(qkv, n_head, *, mask=None, rate=0.0, key=None, past=None, grad=True):
    """qkv (B,T,3C) -> out (B,T,C)"""
    if key is not None or past is not None:
        return NotImplemented  # dropout and earlier positions: the library does that
    q, k, v = (ops.split_heads(third, n_head) for third in np.split(qkv, 3, axis=-1))
    if mask is None:
        mask = ops.causal_mask(q.shape[-2], k.shape[-2], np)
    s = q @ k.swapaxes(-1, -2) / math.sqrt(q.shape[-1])
    s = np.where(mask, s, -math.inf)
    largest = s.max(axis=-1, keepdims=True)
    e = np.exp(s - np.where(largest == -math.inf, 0, largest))
    z = e.sum(axis=-1, keepdims=True)
    p = e / np.where(z == 0, 1, z)
    out = ops.merge_heads(p @ v)
    return out, (q, k, v, p, out)


def self_attention_backward(dout, cache):
    """dout (B,T,C) -> dqkv (B,T,3C)"""
    q, k, v, p, out = cache
    n_head = q.shape[1]
    # the average of dp over a row of p, by the surprise of lesson 03
    average = (dout * out).sum(axis=-1)[:, None, :, None]
    # out = merge_heads(p @ v)
    dheads = ops.split_heads(dout, n_head)
    dp = dheads @ v.swapaxes(-1, -2)
    dv = p.swapaxes(-1, -2) @ dheads
    # p = softmax(s)
    ds = p * (dp - average)
    # s = q @ k^T / sqrt(D)
    ds = ds / math.sqrt(q.shape[-1])
    dq = ds @ k
    dk = ds.swapaxes(-1, -2) @ q
    return np.concatenate([ops.merge_heads(dq), ops.merge_heads(dk), ops.merge_heads(dv)], axis=-1)


# --- the judge: nothing below is yours --------------------------------------------------------------------------------


if __name__ == "__main__":
    from minigpt.learn.judging.check_file import main

    raise SystemExit(main(__file__))

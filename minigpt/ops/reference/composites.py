"""Composites: the coarse parts of a block. They call primitives through the table: whoever replaces one is heard."""

from typing import Any, NamedTuple

from minigpt.device.arrays import array_module
from minigpt.ops.table import table as ops


class MlpCache(NamedTuple):
    fc: Any
    gelu: Any
    proj: Any


def mlp_forward(x, w1, b1, w2, b2, *, grad=True):
    """x (*,C), w1 (C,F), b1 (F,), w2 (F,C), b2 (C,) -> out (*,C)

    out = gelu(x w1 + b1) w2 + b2, position by position (Vaswani et al. 2017, equation 2, with GELU).
    grad=False: no cache is kept.
    """
    f, fc = ops.linear_forward(x, w1, b1)
    a, gelu = ops.gelu_forward(f)
    out, proj = ops.linear_forward(a, w2, b2)
    return out, MlpCache(fc, gelu, proj) if grad else None


def mlp_backward(dout, cache: MlpCache):
    """dout (*,C) -> dx (*,C), dw1 (C,F), db1 (F,), dw2 (F,C), db2 (C,)"""
    da, dw2, db2 = ops.linear_backward(dout, cache.proj)
    df = ops.gelu_backward(da, cache.gelu)
    dx, dw1, db1 = ops.linear_backward(df, cache.fc)
    return dx, dw1, db1, dw2, db2


class SelfAttentionCache(NamedTuple):
    attention: Any
    n_head: int
    n_past: int


def self_attention_forward(qkv, n_head, *, mask=None, rate=0.0, key=None, past=None, grad=True):
    """qkv (B,T,3C) -> out (B,T,C)

    Multi-head attention of positions among themselves, from their packed queries, keys and values (Vaswani et al.
    2017, section 3.2.2): each head works on its own C/n_head columns; afterwards the heads stand side by side again.

    past: (k, v), each (B,NH,S,D): keys and values of earlier positions, constants here, which the new ones follow.
    mask, rate, key: as in attention. grad=False: no cache is kept.
    """
    xp = array_module(qkv)
    q, k, v = (split_heads(x, n_head) for x in xp.split(qkv, 3, axis=-1))
    if past is not None:
        k, v = xp.concatenate([past[0], k], axis=-2), xp.concatenate([past[1], v], axis=-2)
    out, attention = ops.attention_forward(q, k, v, mask=mask, rate=rate, key=key)
    return merge_heads(out), SelfAttentionCache(attention, n_head, k.shape[-2] - q.shape[-2]) if grad else None


def self_attention_backward(dout, cache: SelfAttentionCache):
    """dout (B,T,C) -> dqkv (B,T,3C)"""
    xp = array_module(dout)
    attention, n_head, n_past = cache
    dq, dk, dv = ops.attention_backward(split_heads(dout, n_head), attention)
    dk, dv = dk[..., n_past:, :], dv[..., n_past:, :]
    return xp.concatenate([merge_heads(dq), merge_heads(dk), merge_heads(dv)], axis=-1)


def split_heads(x, n_head: int):
    """(B,T,C) -> (B,NH,T,C/NH): the columns of each head become a sequence of their own."""
    b, t, c = x.shape
    return x.reshape(b, t, n_head, c // n_head).swapaxes(1, 2)


def merge_heads(x):
    """(B,NH,T,D) -> (B,T,NH*D): undoes split_heads."""
    b, n_head, t, d = x.shape
    return x.swapaxes(1, 2).reshape(b, t, n_head * d)


class LinearCrossEntropyCache(NamedTuple):
    head: Any
    cross_entropy: Any


def linear_cross_entropy_forward(h, w, targets, *, weights=None, normalizer=None, grad=True):
    """h (*,C), w (V,C), targets (*) int -> loss ()

    The tied head and its loss in one: cross_entropy(h w^T, targets) (GPT-1 equation 2). Together, because a fast
    implementation need never hold the logits, tokens x vocabulary, all at once.
    weights, normalizer: as in cross_entropy. grad=False: no cache is kept.
    """
    logits, head = ops.linear_forward(h, w.T)
    loss, cross_entropy = ops.cross_entropy_forward(logits, targets, weights=weights, normalizer=normalizer)
    return loss, LinearCrossEntropyCache(head, cross_entropy) if grad else None


def linear_cross_entropy_backward(dloss, cache: LinearCrossEntropyCache):
    """dloss () -> dh (*,C), dw (V,C)"""
    dlogits = ops.cross_entropy_backward(dloss, cache.cross_entropy)
    dh, dw_t, _ = ops.linear_backward(dlogits, cache.head)
    return dh, dw_t.T

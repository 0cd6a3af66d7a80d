"""Composites: the coarse parts of a block. They call primitives through the table: a replaced one runs here too."""

from typing import Any, NamedTuple

from minigpt.device.arrays import array_module
from minigpt.ops.reference.groups import repeat_heads, split_packed, sum_heads
from minigpt.ops.table import table as ops


class MlpCache(NamedTuple):
    fc: Any
    act: Any
    proj: Any
    activation: str


def mlp_forward(x, w1, b1, w2, b2, *, activation="gelu", grad=True):
    """x (*,C), w1 (C,F), b1 (F,), w2 (F,C), b2 (C,) -> out (*,C)

    out = act(x w1 + b1) w2 + b2, position by position (Vaswani et al. 2017, equation 2, with GELU).
    activation: the name of the operation act: gelu, gelu_exact, relu or silu. b1, b2: each may be None.
    grad=False: no cache is kept.
    """
    act_forward = getattr(ops, f"{activation}_forward")
    f, fc = ops.linear_forward(x, w1, b1)
    a, act = act_forward(f)
    out, proj = ops.linear_forward(a, w2, b2)
    return out, MlpCache(fc, act, proj, activation) if grad else None


def mlp_backward(dout, cache: MlpCache):
    """dout (*,C) -> dx (*,C), dw1 (C,F), db1 (F,), dw2 (F,C), db2 (C,)

    None for the gradient of a bias that was not there.
    """
    act_backward = getattr(ops, f"{cache.activation}_backward")
    da, dw2, db2 = ops.linear_backward(dout, cache.proj)
    df = act_backward(da, cache.act)
    dx, dw1, db1 = ops.linear_backward(df, cache.fc)
    return dx, dw1, db1, dw2, db2


class SelfAttentionCache(NamedTuple):
    attention: Any
    n_head: int
    n_kv_head: int
    n_past: int


def self_attention_forward(
    qkv, n_head, bias=None, *,
    n_kv_head=None, mask=None, scale=None, rate=0.0, key=None, past=None, grad=True,
):  # fmt: skip
    """qkv (B,T,3C), [bias (B,NH,T,T)] -> out (B,T,C)

    Multi-head attention of positions among themselves, from their packed queries, keys and values (Vaswani et al.
    2017, section 3.2.2): each head works on its own C/n_head columns; afterwards the heads stand side by side again.

    n_kv_head: so many heads of keys and values, each for a group of n_head / n_kv_head heads of queries (Ainslie et al.
    2023, section 2.2): then qkv is (B,T,C + 2G), G = n_kv_head C/n_head. None: n_head, a group of one each.
    bias, mask, scale, rate, key: as in attention, whose (*,T,S) is (B,NH,T,S) here; without a mask it is causal.
    past: (k, v), each (B,n_kv_head,P,D): keys and values of earlier positions, constants here, which the new ones
    follow: then S = P + T. grad=False: no cache is kept.
    """
    xp = array_module(qkv)
    n_kv_head = n_kv_head or n_head
    group = n_head // n_kv_head
    q, k, v = split_packed(qkv, n_head, n_kv_head)
    n_past = 0
    if past is not None:
        k_past, v_past = past
        n_past = k_past.shape[-2]
        k = xp.concatenate([k_past, k], axis=-2)
        v = xp.concatenate([v_past, v], axis=-2)
    k = repeat_heads(k, group)
    v = repeat_heads(v, group)
    heads, attention = ops.attention_forward(
        q, k, v,
        bias=bias, mask=mask, scale=scale,
        rate=rate, key=key,
    )  # fmt: skip
    out = merge_heads(heads)
    cache = SelfAttentionCache(attention, n_head, n_kv_head, n_past) if grad else None
    return out, cache


def self_attention_backward(dout, cache: SelfAttentionCache):
    """dout (B,T,C) -> dqkv (B,T,3C), [dbias (B,NH,T,T)]"""
    xp = array_module(dout)
    attention, n_head, n_kv_head, n_past = cache
    group = n_head // n_kv_head
    dheads = split_heads(dout, n_head)
    dq, dk, dv, dbias = ops.attention_backward(dheads, attention)
    dk = sum_heads(dk, group)
    dv = sum_heads(dv, group)
    dk = dk[..., n_past:, :]
    dv = dv[..., n_past:, :]
    dq = merge_heads(dq)
    dk = merge_heads(dk)
    dv = merge_heads(dv)
    dqkv = xp.concatenate([dq, dk, dv], axis=-1)
    return dqkv, dbias


class CrossAttentionCache(NamedTuple):
    attention: Any
    n_head: int


def cross_attention_forward(
    q, kv, n_head, bias=None, *,
    mask=None, scale=None, rate=0.0, key=None, grad=True,
):  # fmt: skip
    """q (B,T,C), kv (B,S,2C), [bias (B,NH,T,S)] -> out (B,T,C)

    Multi-head attention of the positions of one text to those of another, as of a decoder to what its encoder has read
    (Vaswani et al. 2017, section 3.2.3). kv: packed keys and values. They are the same at every step of a decoder, so
    there is no past to give.

    bias, mask, scale, rate, key: as in attention, whose (*,T,S) is (B,NH,T,S) here. Without a mask every query sees
    every key. grad=False: no cache is kept.
    """
    xp = array_module(q, kv)
    if mask is None:
        mask = xp.ones((1, 1), bool)
    k, v = xp.split(kv, 2, axis=-1)
    q = split_heads(q, n_head)
    k = split_heads(k, n_head)
    v = split_heads(v, n_head)
    heads, attention = ops.attention_forward(
        q, k, v,
        bias=bias, mask=mask, scale=scale,
        rate=rate, key=key,
    )  # fmt: skip
    out = merge_heads(heads)
    cache = CrossAttentionCache(attention, n_head) if grad else None
    return out, cache


def cross_attention_backward(dout, cache: CrossAttentionCache):
    """dout (B,T,C) -> dq (B,T,C), dkv (B,S,2C), [dbias (B,NH,T,S)]"""
    xp = array_module(dout)
    dheads = split_heads(dout, cache.n_head)
    dq, dk, dv, dbias = ops.attention_backward(dheads, cache.attention)
    dq = merge_heads(dq)
    dk = merge_heads(dk)
    dv = merge_heads(dv)
    dkv = xp.concatenate([dk, dv], axis=-1)
    return dq, dkv, dbias


def split_heads(x, n_head: int):
    """(B,T,C) -> (B,NH,T,C/NH): the columns of each head become a sequence of their own."""
    b, t, c = x.shape
    size = c // n_head
    heads = x.reshape(b, t, n_head, size)
    return heads.swapaxes(1, 2)


def merge_heads(x):
    """(B,NH,T,D) -> (B,T,NH*D): undoes split_heads."""
    b, n_head, t, d = x.shape
    c = n_head * d
    return x.swapaxes(1, 2).reshape(b, t, c)


class LinearCrossEntropyCache(NamedTuple):
    head: Any
    cross_entropy: Any


def linear_cross_entropy_forward(
    h, w, targets, bias=None, *,
    weights=None, normalizer=None, grad=True,
):  # fmt: skip
    """h (*,C), w (V,C), targets (*) int, [bias (V,)] -> loss ()

    The tied head and its loss in one: cross_entropy(h w^T + bias, targets) (GPT-1 equation 2; BERT's head has a bias).
    Together, because a fast implementation need never hold the logits, tokens x vocabulary, all at once.
    bias: optional. weights, normalizer: as in cross_entropy. grad=False: no cache is kept.
    """
    logits, head = ops.linear_forward(h, w.T, b=bias)
    loss, cross_entropy = ops.cross_entropy_forward(
        logits, targets,
        weights=weights, normalizer=normalizer,
    )  # fmt: skip
    cache = LinearCrossEntropyCache(head, cross_entropy) if grad else None
    return loss, cache


def linear_cross_entropy_backward(dloss, cache: LinearCrossEntropyCache):
    """dloss () -> dh (*,C), dw (V,C), [dbias (V,)]"""
    dlogits = ops.cross_entropy_backward(dloss, cache.cross_entropy)
    dh, dw_t, dbias = ops.linear_backward(dlogits, cache.head)
    return dh, dw_t.T, dbias

"""Wrong composites: the MLP, self-attention on the packed projection, and the head with its loss."""

import numpy as np

from minigpt import ops
from minigpt.ops import reference
from minigpt.ops.reference.composites import merge_heads, split_heads


class Mlp:
    mlp_forward = staticmethod(reference.mlp_forward)


class GeluForgottenInTheMlp(Mlp):
    """The backward pass walks past the GELU."""

    expects = "GELU"

    @staticmethod
    def mlp_backward(dout, cache):
        da, dw2, db2 = ops.linear_backward(dout, cache.proj)
        dx, dw1, db1 = ops.linear_backward(da, cache.fc)
        return dx, dw1, db1, dw2, db2


class MlpWeightsSwapped(Mlp):
    """dw2 stands where dw1 belongs."""

    expects = "swapped"

    @staticmethod
    def mlp_backward(dout, cache):
        dx, dw1, db1, dw2, db2 = reference.mlp_backward(dout, cache)
        return dx, dw2, db1, dw1, db2


class SelfAttention:
    self_attention_forward = staticmethod(reference.self_attention_forward)


class PackedInAnotherOrder(SelfAttention):
    """dk, dq, dv are packed: queries and keys are swapped."""

    expects = "parts of its last axis are swapped"

    @staticmethod
    def self_attention_backward(dout, cache):
        dq, dk, dv = np.split(reference.self_attention_backward(dout, cache), 3, axis=-1)
        return np.concatenate([dk, dq, dv], axis=-1)


class HeadsReshapedOnly(SelfAttention):
    """The heads are put together by reshape alone, without moving their axis back."""

    expects = "wrong places"

    @staticmethod
    def self_attention_backward(dout, cache):
        b, t, c = dout.shape
        dqkv = reference.self_attention_backward(dout, cache)
        parts = [split_heads(x, cache.n_head).reshape(b, t, c) for x in np.split(dqkv, 3, axis=-1)]
        return np.concatenate(parts, axis=-1)


class PastNotCutOff(SelfAttention):
    """The gradients of the first keys and values are kept: those of the past, which are constants here."""

    expects = "of axis 2"

    @staticmethod
    def self_attention_backward(dout, cache):
        attention, n_head, n_past = cache
        dq, dk, dv = ops.attention_backward(split_heads(dout, n_head), attention)
        t = dout.shape[1]
        return np.concatenate([merge_heads(x[..., :t, :]) for x in (dq, dk, dv)], axis=-1)


class ValuesForgotten(SelfAttention):
    """The part of the values stays zero."""

    expects = "of axis 2"

    @staticmethod
    def self_attention_backward(dout, cache):
        dqkv = reference.self_attention_backward(dout, cache).copy()
        dqkv[..., 2 * dout.shape[-1] :] = 0
        return dqkv


class Head:
    linear_cross_entropy_forward = staticmethod(reference.linear_cross_entropy_forward)


class HeadTransposed(Head):
    """dw is that of w^T."""

    expects = "transposed"

    @staticmethod
    def linear_cross_entropy_backward(dloss, cache):
        dh, dw = reference.linear_cross_entropy_backward(dloss, cache)
        return dh, dw.T


class HeadSign(Head):
    """dh points uphill."""

    expects = "sign"

    @staticmethod
    def linear_cross_entropy_backward(dloss, cache):
        dh, dw = reference.linear_cross_entropy_backward(dloss, cache)
        return -dh, dw

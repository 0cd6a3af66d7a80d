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
        dqkv, dbias = reference.self_attention_backward(dout, cache)
        dq, dk, dv = np.split(dqkv, 3, axis=-1)
        return np.concatenate([dk, dq, dv], axis=-1), dbias


class HeadsReshapedOnly(SelfAttention):
    """The heads are put together by reshape alone, without moving their axis back."""

    expects = "wrong places"

    @staticmethod
    def self_attention_backward(dout, cache):
        b, t, c = dout.shape
        dqkv, dbias = reference.self_attention_backward(dout, cache)
        parts = [split_heads(x, cache.n_head).reshape(b, t, c) for x in np.split(dqkv, 3, axis=-1)]
        return np.concatenate(parts, axis=-1), dbias


class PastNotCutOff(SelfAttention):
    """The gradients of the first keys and values are kept: those of the past, which are constants here."""

    expects = "of axis 2"

    @staticmethod
    def self_attention_backward(dout, cache):
        attention, n_head, n_past = cache
        dq, dk, dv, dbias = ops.attention_backward(split_heads(dout, n_head), attention)
        t = dout.shape[1]
        return np.concatenate([merge_heads(x[..., :t, :]) for x in (dq, dk, dv)], axis=-1), dbias


class ValuesForgotten(SelfAttention):
    """The part of the values stays zero."""

    expects = "of axis 2"

    @staticmethod
    def self_attention_backward(dout, cache):
        dqkv, dbias = reference.self_attention_backward(dout, cache)
        dqkv = dqkv.copy()
        dqkv[..., 2 * dout.shape[-1] :] = 0
        return dqkv, dbias


class CausalDespiteTheMask:
    """What follows stays hidden, whatever the mask shows."""

    expects = "wrong only at"

    @staticmethod
    def self_attention_forward(qkv, n_head, bias=None, *, mask=None, past=None, **constants):
        t = qkv.shape[1]
        if mask is not None:
            mask = mask & np.tri(t, mask.shape[-1], mask.shape[-1] - t, dtype=bool)
        return reference.self_attention_forward(qkv, n_head, bias, mask=mask, past=past, **constants)

    self_attention_backward = staticmethod(reference.self_attention_backward)


class CrossAttention:
    cross_attention_forward = staticmethod(reference.cross_attention_forward)


class KeysAndValuesPackedInAnotherOrder(CrossAttention):
    """dv stands before dk in dkv."""

    expects = "parts of its last axis are swapped"

    @staticmethod
    def cross_attention_backward(dout, cache):
        dq, dkv, dbias = reference.cross_attention_backward(dout, cache)
        dk, dv = np.split(dkv, 2, axis=-1)
        return dq, np.concatenate([dv, dk], axis=-1), dbias


class KeysGetNothing(CrossAttention):
    """Only the values of the other text get a gradient."""

    expects = "of axis 2"

    @staticmethod
    def cross_attention_backward(dout, cache):
        dq, dkv, dbias = reference.cross_attention_backward(dout, cache)
        dkv = dkv.copy()
        dkv[..., : dout.shape[-1]] = 0
        return dq, dkv, dbias


class CausalAcrossTexts:
    """Without a mask, a query sees no key after its own place: but the other text has no later and earlier."""

    expects = "wrong only at"

    @staticmethod
    def cross_attention_forward(q, kv, n_head, bias=None, *, mask=None, **constants):
        if mask is None:
            mask = np.tri(q.shape[1], kv.shape[1], kv.shape[1] - q.shape[1], dtype=bool)
        return reference.cross_attention_forward(q, kv, n_head, bias, mask=mask, **constants)

    cross_attention_backward = staticmethod(reference.cross_attention_backward)


class Head:
    linear_cross_entropy_forward = staticmethod(reference.linear_cross_entropy_forward)


class HeadTransposed(Head):
    """dw is that of w^T."""

    expects = "transposed"

    @staticmethod
    def linear_cross_entropy_backward(dloss, cache):
        dh, dw, dbias = reference.linear_cross_entropy_backward(dloss, cache)
        return dh, dw.T, dbias


class HeadSign(Head):
    """dh points uphill."""

    expects = "sign"

    @staticmethod
    def linear_cross_entropy_backward(dloss, cache):
        dh, dw, dbias = reference.linear_cross_entropy_backward(dloss, cache)
        return -dh, dw, dbias


class HeadBiasForgotten(Head):
    """The bias of the head gets no gradient."""

    expects = "gradients; expected"

    @staticmethod
    def linear_cross_entropy_backward(dloss, cache):
        dh, dw, _ = reference.linear_cross_entropy_backward(dloss, cache)
        return dh, dw


class HeadBiasWithoutWeights(Head):
    """The gradient of the bias counts every row alike."""

    expects = "right without weights"

    @staticmethod
    def linear_cross_entropy_backward(dloss, cache):
        dh, dw, dbias = reference.linear_cross_entropy_backward(dloss, cache)
        counts = (cache.cross_entropy.share > 0).astype(dh.dtype)
        alike = cache.cross_entropy._replace(share=counts / counts.sum())
        dlogits = ops.cross_entropy_backward(dloss, alike)
        rows = dlogits.reshape(-1, dlogits.shape[-1])
        return dh, dw, None if dbias is None else rows.sum(axis=0)


class HeadBiasMean(Head):
    """The gradient of the bias is the mean over the rows, and not their sum."""

    expects = "is it a mean over 6"

    @staticmethod
    def linear_cross_entropy_backward(dloss, cache):
        dh, dw, dbias = reference.linear_cross_entropy_backward(dloss, cache)
        n_rows = len(cache.cross_entropy.share)
        return dh, dw, None if dbias is None else dbias / n_rows

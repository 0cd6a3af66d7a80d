"""Wrong softmaxes and attentions."""

import math

import numpy as np

from minigpt.ops import reference
from minigpt.ops.keys import keep_mask
from minigpt.ops.reference.softmax import SoftmaxCache


class Softmax:
    softmax_forward = staticmethod(reference.softmax_forward)


class SoftmaxElementwise(Softmax):
    """p (1 - p) dp: the derivative of a sigmoid. Every probability depends on every score."""

    expects = "sigmoid"

    @staticmethod
    def softmax_backward(dp, cache):
        return cache.p * (1 - cache.p) * dp


class SoftmaxWithoutAverage(Softmax):
    """p dp: the average over the row is not subtracted."""

    expects = "multiple of out"

    @staticmethod
    def softmax_backward(dp, cache):
        return cache.p * dp


class SoftmaxAverageOfTheColumn(Softmax):
    """The average runs over the first axis instead of the last."""

    expects = "runs over another axis"

    @staticmethod
    def softmax_backward(dp, cache):
        p = cache.p
        return p * (dp - (p * dp).sum(axis=0, keepdims=True))


class SoftmaxAverageWithoutWeights(Softmax):
    """The plain mean of dp is subtracted instead of the average weighted with p."""

    expects = "multiple of out"

    @staticmethod
    def softmax_backward(dp, cache):
        return cache.p * (dp - dp.mean(axis=-1, keepdims=True))


class SoftmaxTimesMinusSeven(Softmax):
    """Seven times too large and of the wrong sign: with a cotangent of ones nobody notices."""

    expects = "-0.1429 times"

    @staticmethod
    def softmax_backward(dp, cache):
        return -7 * reference.softmax_backward(dp, cache)


class SoftmaxOverAllAxes(Softmax):
    """The forward pass divides by the sum of the whole array."""

    expects = "factor of its own"

    @staticmethod
    def softmax_forward(x):
        e = np.exp(x - x.max())
        return e / e.sum(), SoftmaxCache(e / e.sum())

    softmax_backward = staticmethod(reference.softmax_backward)


class Attention:
    attention_forward = staticmethod(reference.attention_forward)


def backward(dout, cache, scale=None, dp_term=1.0, dropped_v=True, dropped_p=True, key=None, p=None):
    """Attention's backward pass, with switches for what may go wrong in it."""
    q, k, v, p_forward, rate, key_forward = cache
    p = p_forward if p is None else p
    scale = 1 / math.sqrt(q.shape[-1]) if scale is None else scale
    key = key or key_forward

    def drop(x):
        return x if key is None else x * keep_mask(key, rate, x.shape, np) * (1 / (1 - rate))

    dp = dout @ v.swapaxes(-1, -2)
    dv = (drop(p) if dropped_v else p).swapaxes(-1, -2) @ dout
    dp = drop(dp) if dropped_p else dp
    ds = p * (dp - dp_term * (p * dp).sum(axis=-1, keepdims=True))
    return ds @ k * scale, ds.swapaxes(-1, -2) @ q * scale, dv


class ScaleForgottenInTheBackward(Attention):
    """1/sqrt(D) is missing in dq and dk."""

    expects = "is the scale missing"

    @staticmethod
    def attention_backward(dout, cache):
        return backward(dout, cache, scale=1.0)


class ScaleSquared(Attention):
    """1/D instead of 1/sqrt(D) in dq and dk."""

    expects = "once too often"

    @staticmethod
    def attention_backward(dout, cache):
        return backward(dout, cache, scale=1 / cache.q.shape[-1])


class ScaleForgottenInTheForward:
    """The scores are not scaled, and the backward pass agrees: only another forward pass can tell."""

    expects = "is the scale 1/sqrt(7) missing"

    @staticmethod
    def attention_forward(q, k, v, *, mask=None, rate=0.0, key=None):
        return reference.attention_forward(q * math.sqrt(q.shape[-1]), k, v, mask=mask, rate=rate, key=key)

    @staticmethod
    def attention_backward(dout, cache):
        dq, dk, dv = reference.attention_backward(dout, cache)
        return dq * math.sqrt(cache.q.shape[-1]), dk, dv


class QueryAndKeySwapped(Attention):
    """dk, dq, dv: with as many keys as queries the shapes fit, and nothing is said."""

    expects = "swapped"

    @staticmethod
    def attention_backward(dout, cache):
        dq, dk, dv = reference.attention_backward(dout, cache)
        return dk, dq, dv


class KeyAndValueSwapped(Attention):
    """dq, dv, dk: keys and values have the same shape."""

    expects = "swapped"

    @staticmethod
    def attention_backward(dout, cache):
        dq, dk, dv = reference.attention_backward(dout, cache)
        return dq, dv, dk


class AttentionSign(Attention):
    """dk has the wrong sign."""

    expects = "sign"

    @staticmethod
    def attention_backward(dout, cache):
        dq, dk, dv = reference.attention_backward(dout, cache)
        return dq, -dk, dv


class RowSumDropped(Attention):
    """ds = p dp: the softmax's own sum over the row is left out."""

    expects = "sums to 0 along axis"

    @staticmethod
    def attention_backward(dout, cache):
        return backward(dout, cache, dp_term=0.0)


class DropoutForgottenInTheScores(Attention):
    """The dropped probabilities get a gradient after all."""

    expects = "without key"

    @staticmethod
    def attention_backward(dout, cache):
        return backward(dout, cache, dropped_p=False)


class DropoutForgottenInTheValues(Attention):
    """dv uses the probabilities before dropout."""

    expects = "without key"

    @staticmethod
    def attention_backward(dout, cache):
        return backward(dout, cache, dropped_v=False)


class MaskForgottenInTheBackward:
    """The backward pass computes the probabilities again, and forgets the mask."""

    expects = "without mask"

    @staticmethod
    def attention_forward(q, k, v, *, mask=None, rate=0.0, key=None):
        out, cache = reference.attention_forward(q, k, v, mask=mask, rate=rate, key=key)
        return out, (cache, mask is not None)

    @staticmethod
    def attention_backward(dout, cache):
        cache, masked = cache
        q, k, v = cache[:3]
        everything = np.ones((q.shape[-2], k.shape[-2]), bool)
        p = reference.attention_forward(q, k, v, mask=everything)[1].p
        return backward(dout, cache, p=p if masked else cache.p)


class MaskAfterTheSoftmax:
    """The mask is multiplied in after the softmax: the rows no longer sum to 1, and the future has its say."""

    expects = "factor of its own"

    @staticmethod
    def attention_forward(q, k, v, *, mask=None, rate=0.0, key=None):
        t, s = q.shape[-2], k.shape[-2]
        if mask is None:
            mask = np.arange(s) <= np.arange(t)[:, None] + (s - t)
        out, cache = reference.attention_forward(q, k, v, mask=np.ones((t, s), bool))
        p = cache.p * mask
        dropped = p if key is None else p * keep_mask(key, rate, p.shape, np) / (1 - rate)
        return dropped @ v, cache._replace(p=p, rate=rate, key=key)

    attention_backward = staticmethod(reference.attention_backward)


class NotCausal:
    """Without a mask given, every position sees the future."""

    expects = "wrong only at"

    @staticmethod
    def attention_forward(q, k, v, *, mask=None, rate=0.0, key=None):
        mask = np.ones((q.shape[-2], k.shape[-2]), bool) if mask is None else mask
        return reference.attention_forward(q, k, v, mask=mask, rate=rate, key=key)

    attention_backward = staticmethod(reference.attention_backward)

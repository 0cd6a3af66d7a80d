"""Wrong softmaxes and attentions."""

import math

import numpy as np

from minigpt.ops import reference
from minigpt.ops.random_keys import keep_mask
from minigpt.ops.reference.attention import sum_to
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

    expects = "multiple of out: is a mean or sum over the row left out"

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

    expects = "has the term with it a wrong factor, or is its mean or sum a wrong one"

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

    expects = "sums to 1 over axes (0, 1, 2) together"

    @staticmethod
    def softmax_forward(x):
        e = np.exp(x - x.max())
        return e / e.sum(), SoftmaxCache(e / e.sum())

    softmax_backward = staticmethod(reference.softmax_backward)


class Attention:
    attention_forward = staticmethod(reference.attention_forward)


def backward(dout, cache, scale=None, dp_term=1.0, dropped_v=True, dropped_p=True, key=None, p=None):
    """Attention's backward pass, with switches for what may go wrong in it."""
    q, k, v, rate = cache.q, cache.k, cache.v, cache.rate
    p = cache.p if p is None else p
    scale = cache.scale if scale is None else scale
    key = key or cache.key

    def drop(x):
        return x if key is None else x * keep_mask(key, rate, x.shape, np) * (1 / (1 - rate))

    dp = dout @ v.swapaxes(-1, -2)
    dv = (drop(p) if dropped_v else p).swapaxes(-1, -2) @ dout
    dp = drop(dp) if dropped_p else dp
    ds = p * (dp - dp_term * (p * dp).sum(axis=-1, keepdims=True))
    dbias = None if cache.bias_shape is None else sum_to(cache.bias_shape, ds)
    return ds @ k * scale, ds.swapaxes(-1, -2) @ q * scale, dv, dbias


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
        return backward(dout, cache, scale=cache.scale**2)


class ScaleForgottenInTheForward:
    """The scores are not scaled, and the backward pass agrees: only another forward pass can tell."""

    expects = "is the scale 1/sqrt(7) missing"

    @staticmethod
    def attention_forward(q, k, v, bias=None, *, scale=None, **constants):
        return reference.attention_forward(q, k, v, bias, scale=1.0, **constants)

    attention_backward = staticmethod(reference.attention_backward)


class ScaleOfItsOwnIgnored:
    """The scale is always 1/sqrt(D), whatever is given."""

    expects = "right without scale"

    @staticmethod
    def attention_forward(q, k, v, bias=None, *, scale=None, **constants):
        return reference.attention_forward(q, k, v, bias, **constants)

    attention_backward = staticmethod(reference.attention_backward)


class ScaleOfItsOwnForgottenInTheBackward(Attention):
    """The backward pass takes 1/sqrt(D), although the forward pass was given another scale."""

    expects = "constant factor"

    @staticmethod
    def attention_backward(dout, cache):
        return backward(dout, cache, scale=1 / math.sqrt(cache.q.shape[-1]))


class ScaleTwice:
    """The scores are multiplied with the scale twice."""

    expects = "applied once too often"

    @staticmethod
    def attention_forward(q, k, v, bias=None, *, scale=None, **constants):
        scale = 1 / math.sqrt(q.shape[-1]) if scale is None else scale
        return reference.attention_forward(q, k, v, bias, scale=scale**2, **constants)

    attention_backward = staticmethod(reference.attention_backward)


class QueryAndKeySwapped(Attention):
    """dk, dq, dv: with as many keys as queries the shapes fit, and nothing is said."""

    expects = "swapped"

    @staticmethod
    def attention_backward(dout, cache):
        dq, dk, dv, dbias = reference.attention_backward(dout, cache)
        return dk, dq, dv, dbias


class KeyAndValueSwapped(Attention):
    """dq, dv, dk: keys and values have the same shape."""

    expects = "swapped"

    @staticmethod
    def attention_backward(dout, cache):
        dq, dk, dv, dbias = reference.attention_backward(dout, cache)
        return dq, dv, dk, dbias


class AttentionSign(Attention):
    """dk has the wrong sign."""

    expects = "sign"

    @staticmethod
    def attention_backward(dout, cache):
        dq, dk, dv, dbias = reference.attention_backward(dout, cache)
        return dq, -dk, dv, dbias


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


class MaskUpsideDown:
    """A mask hides what it should show, and shows what it should hide."""

    expects = "read upside down"

    @staticmethod
    def attention_forward(q, k, v, bias=None, *, mask=None, **constants):
        hidden = None if mask is None else ~mask
        return reference.attention_forward(q, k, v, bias, mask=hidden, **constants)

    attention_backward = staticmethod(reference.attention_backward)


class NotCausal:
    """Without a mask given, every position sees the future."""

    expects = "right without a mask"

    @staticmethod
    def attention_forward(q, k, v, *, mask=None, rate=0.0, key=None):
        mask = np.ones((q.shape[-2], k.shape[-2]), bool) if mask is None else mask
        return reference.attention_forward(q, k, v, mask=mask, rate=rate, key=key)

    attention_backward = staticmethod(reference.attention_backward)


class BiasOfOneTextOnly(Attention):
    """The gradient of a bias that all texts share is that of the first text."""

    expects = "wrong only at"

    @staticmethod
    def attention_backward(dout, cache):
        dq, dk, dv, dbias = reference.attention_backward(dout, cache)
        shape = cache.bias_shape
        if shape is not None and shape[0] == 1:
            whole = reference.attention_backward(dout, cache._replace(bias_shape=cache.p.shape))[3]
            dbias = whole[:1]
        return dq, dk, dv, dbias


class BiasNotSummed(Attention):
    """The gradient of a bias that all texts share has all of their parts beside each other."""

    expects = "not summed over axes"

    @staticmethod
    def attention_backward(dout, cache):
        wide = None if cache.bias_shape is None else cache.p.shape
        return reference.attention_backward(dout, cache._replace(bias_shape=wide))


class BiasMeanOverTheTexts(Attention):
    """The gradient of a bias that all texts share is their mean, and not their sum."""

    expects = "a mean over"

    @staticmethod
    def attention_backward(dout, cache):
        dq, dk, dv, dbias = reference.attention_backward(dout, cache)
        if dbias is not None and dbias.shape != cache.p.shape:
            dbias = dbias * dbias.size / cache.p.size
        return dq, dk, dv, dbias


class BiasGradientScaled(Attention):
    """The gradient of the bias gets the scale too: but the bias is added after the scores are scaled."""

    expects = "is the scale applied once too often"

    @staticmethod
    def attention_backward(dout, cache):
        dq, dk, dv, dbias = reference.attention_backward(dout, cache)
        return dq, dk, dv, None if dbias is None else dbias * cache.scale


class BiasGradientOfTheProbabilities(Attention):
    """The gradient of the bias is that of the probabilities: the softmax is left out."""

    expects = "sums to 0 along axis"

    @staticmethod
    def attention_backward(dout, cache):
        dq, dk, dv, dbias = reference.attention_backward(dout, cache)
        dp = dout @ cache.v.swapaxes(-1, -2)
        return dq, dk, dv, None if dbias is None else sum_to(cache.bias_shape, dp)


class BiasBeforeTheScale:
    """The bias is scaled together with the products."""

    expects = "applied once too often"

    @staticmethod
    def attention_forward(q, k, v, bias=None, *, scale=None, **constants):
        factor = 1 / math.sqrt(q.shape[-1]) if scale is None else scale
        scaled = None if bias is None else bias * factor
        return reference.attention_forward(q, k, v, scaled, scale=scale, **constants)

    @staticmethod
    def attention_backward(dout, cache):
        dq, dk, dv, dbias = reference.attention_backward(dout, cache)
        return dq, dk, dv, None if dbias is None else dbias * cache.scale


class BiasAfterTheSoftmax:
    """The bias is added to the probabilities."""

    expects = "without bias"

    @staticmethod
    def attention_forward(q, k, v, bias=None, **constants):
        out, cache = reference.attention_forward(q, k, v, **constants)
        if bias is None:
            return out, (cache, None)
        everywhere = np.broadcast_to(bias, cache.p.shape)
        return out + everywhere @ v, (cache, everywhere, bias.shape)

    @staticmethod
    def attention_backward(dout, cache):
        cache, everywhere, *shape = cache
        dq, dk, dv, _ = reference.attention_backward(dout, cache)
        if everywhere is None:
            return dq, dk, dv
        da = dout @ cache.v.swapaxes(-1, -2)
        return dq, dk, dv + everywhere.swapaxes(-1, -2) @ dout, sum_to(shape[0], da)

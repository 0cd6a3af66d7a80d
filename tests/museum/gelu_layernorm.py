"""Wrong GELUs and layer normalisations."""

import math

import numpy as np

from minigpt.ops import reference

C, A = math.sqrt(2 / math.pi), 0.044715


class Gelu:
    gelu_forward = staticmethod(reference.gelu_forward)


class GeluOfTheErrorFunction(Gelu):
    """The derivative of the exact GELU, with the error function, under the forward pass of the tanh form."""

    expects = "another form"

    @staticmethod
    def gelu_backward(dout, cache):
        x = cache.x
        normal = np.vectorize(math.erf, otypes=[float])(x / math.sqrt(2)) / 2 + 0.5
        slope = normal + x * np.exp(-x * x / 2) / math.sqrt(2 * math.pi)
        return (dout * slope).astype(x.dtype)


class GeluWithoutTheInnerDerivative(Gelu):
    """The derivative of tanh(u) stops at u: du/dx is missing."""

    expects = "inner function"

    @staticmethod
    def gelu_backward(dout, cache):
        x, t = cache
        return dout * (0.5 * (1 + t) + 0.5 * x * (1 - t * t))


class GeluWithoutTheSwitch(Gelu):
    """(1 + t)/2 alone: as if the switch did not depend on x."""

    expects = "product rule"

    @staticmethod
    def gelu_backward(dout, cache):
        return dout * 0.5 * (1 + cache.t)


class GeluWithoutTheCube(Gelu):
    """du/dx without the 3 that comes from x^3."""

    expects = "inner function"

    @staticmethod
    def gelu_backward(dout, cache):
        x, t = cache
        return dout * (0.5 * (1 + t) + 0.5 * x * (1 - t * t) * C * (1 + A * x * x))


class GeluPromotes(Gelu):
    """np.sqrt gives a NumPy float64, which turns float32 arrays into float64."""

    expects = "float64"

    @staticmethod
    def gelu_backward(dout, cache):
        x, t = cache
        return dout * (0.5 * (1 + t) + 0.5 * x * (1 - t * t) * np.sqrt(2 / np.pi) * (1 + 3 * A * x * x))


class GeluOutsideTheCache(Gelu):
    """t is kept outside the cache: whoever calls the forward pass in between spoils it."""

    expects = "state outside the cache"
    last = None

    @staticmethod
    def gelu_forward(x):
        out, GeluOutsideTheCache.last = reference.gelu_forward(x)
        return out, x

    @staticmethod
    def gelu_backward(dout, cache):
        return reference.gelu_backward(dout, GeluOutsideTheCache.last._replace(x=cache))


class LayerNorm:
    layernorm_forward = staticmethod(reference.layernorm_forward)


def backward(dout, cache, shift=1.0, stretch=1.0):
    """Layer normalisation's backward pass, with its two projections as switches."""
    x_hat, rstd, g = cache
    _, dg, db = reference.layernorm_backward(dout, cache)
    d = dout * g
    d = d - shift * d.mean(axis=-1, keepdims=True) - stretch * x_hat * (d * x_hat).mean(axis=-1, keepdims=True)
    return rstd * d, dg, db


class ShiftDropped(LayerNorm):
    """mean(dx_hat) is not subtracted."""

    expects = "same number for the whole row: is a mean or sum over the row left out"

    @staticmethod
    def layernorm_backward(dout, cache):
        return backward(dout, cache, shift=0.0)


class StretchDropped(LayerNorm):
    """x_hat mean(dx_hat x_hat) is not subtracted."""

    expects = "cache.x_hat: is a mean or sum over the row left out"

    @staticmethod
    def layernorm_backward(dout, cache):
        return backward(dout, cache, stretch=0.0)


class BothDropped(LayerNorm):
    """Only rstd dx_hat is left, as if mean and deviation did not depend on x."""

    expects = "a number, and a multiple of x: is a mean or sum over the row left out"

    @staticmethod
    def layernorm_backward(dout, cache):
        return backward(dout, cache, shift=0.0, stretch=0.0)


class DeviationSquared(LayerNorm):
    """rstd**2 for rstd**3 in the gradient of the variance: one factor is missing in the third term."""

    expects = "in the term with it one factor cache.rstd is missing"

    @staticmethod
    def layernorm_backward(dout, cache):
        return backward(dout, cache, stretch=1 / cache.rstd)


class DeviationToTheFourth(LayerNorm):
    """rstd**4 for rstd**3 in the gradient of the variance."""

    expects = "in the term with it is one factor cache.rstd too many"

    @staticmethod
    def layernorm_backward(dout, cache):
        return backward(dout, cache, stretch=cache.rstd)


class DeviationOnce(LayerNorm):
    """rstd for rstd**3 in the gradient of the variance."""

    expects = "in the term with it two factors cache.rstd are missing"

    @staticmethod
    def layernorm_backward(dout, cache):
        return backward(dout, cache, stretch=cache.rstd**-2)


class HalfOfTheVariance(LayerNorm):
    """The factor 2 of the square is forgotten."""

    expects = "only half of the term with it is there"

    @staticmethod
    def layernorm_backward(dout, cache):
        return backward(dout, cache, stretch=1 / 2)


class MeanAddedBack(LayerNorm):
    """mean(dx_hat) is added where it is subtracted."""

    expects = "same number for the whole row: the term with it has the wrong sign"

    @staticmethod
    def layernorm_backward(dout, cache):
        return backward(dout, cache, shift=-1.0)


class SumForTheMean(LayerNorm):
    """The sum of dx_hat x_hat where it must be the mean."""

    expects = "the term with it is 15 times too large: is it a sum over the row where it must be a mean"

    @staticmethod
    def layernorm_backward(dout, cache):
        return backward(dout, cache, stretch=float(dout.shape[-1]))


class GainOutsideTheMeans(LayerNorm):
    """g is multiplied in after the means were taken: at g = 1 nobody notices."""

    expects = "g is multiplied in at the end"

    @staticmethod
    def layernorm_backward(dout, cache):
        x_hat, rstd, g = cache
        dx, dg, db = reference.layernorm_backward(dout, cache._replace(g=np.ones_like(g)))
        return dx * g, dg, db


class GainForgotten(LayerNorm):
    """dx for a gain of 1."""

    expects = "for g = 1"

    @staticmethod
    def layernorm_backward(dout, cache):
        return reference.layernorm_backward(dout, cache._replace(g=np.ones_like(cache.g)))


class DeviationForgotten(LayerNorm):
    """rstd is missing in dx."""

    expects = "rstd: is that factor missing"

    @staticmethod
    def layernorm_backward(dout, cache):
        dx, dg, db = reference.layernorm_backward(dout, cache)
        return dx / cache.rstd, dg, db


class GainHearsOfDoutAlone(LayerNorm):
    """dg = sum(dout), which is db: x_hat is missing."""

    expects = "gradient of b"

    @staticmethod
    def layernorm_backward(dout, cache):
        dx, _, db = reference.layernorm_backward(dout, cache)
        return dx, db, db


class GainHearsOfX(LayerNorm):
    """dg = sum(dout x), before normalisation."""

    expects = "the sum of dout x over the rows"

    @staticmethod
    def layernorm_forward(x, g, b, *, eps=1e-5):
        out, cache = reference.layernorm_forward(x, g, b, eps=eps)
        return out, (x, cache)

    @staticmethod
    def layernorm_backward(dout, cache):
        x, cache = cache
        dx, _, db = reference.layernorm_backward(dout, cache)
        return dx, (dout * x).sum(axis=tuple(range(dout.ndim - 1))), db


class WritesIntoDout(LayerNorm):
    """dout *= g saves an array, and spoils the caller's."""

    expects = "writes into dout"

    @staticmethod
    def layernorm_backward(dout, cache):
        x_hat, rstd, g = cache
        rows = tuple(range(dout.ndim - 1))
        dg, db = (dout * x_hat).sum(axis=rows), dout.sum(axis=rows)
        dout *= g
        dx = dout - dout.mean(axis=-1, keepdims=True) - x_hat * (dout * x_hat).mean(axis=-1, keepdims=True)
        return rstd * dx, dg, db


class WritesIntoTheCache(LayerNorm):
    """x_hat is overwritten: right the first time, wrong the second."""

    expects = "writes into cache.x_hat"

    @staticmethod
    def layernorm_backward(dout, cache):
        dx, dg, db = reference.layernorm_backward(dout, cache)
        x_hat = cache.x_hat
        x_hat *= 2
        return dx, dg, db


class UnbiasedVariance:
    """The forward pass divides by C - 1, and the backward pass agrees with it nearly."""

    expects = "in the term with it is a division by 15 where the forward pass divides by 14"

    @staticmethod
    def layernorm_forward(x, g, b, *, eps=1e-5):
        out, cache = reference.layernorm_forward(x, g, b, eps=eps)
        x_hat, rstd, g = cache
        n = x.shape[-1]
        factor = math.sqrt((n - 1) / n)
        return (out - b) * factor + b, cache._replace(x_hat=x_hat * factor, rstd=rstd * factor)

    layernorm_backward = staticmethod(reference.layernorm_backward)

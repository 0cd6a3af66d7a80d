"""Wrong RMSNorms, soft cross-entropies and cosine losses."""

import numpy as np

from minigpt.ops import reference


class Rmsnorm:
    rmsnorm_forward = staticmethod(reference.rmsnorm_forward)


class RmsnormWithoutItsStretch(Rmsnorm):
    """r is taken as a constant: that it depends on x is forgotten."""

    expects = "mean or sum over the row"

    @staticmethod
    def rmsnorm_backward(dout, cache):
        _, dg = reference.rmsnorm_backward(dout, cache)
        return cache.r * dout * cache.g, dg


class RmsnormAsLayernorm(Rmsnorm):
    """The mean of dx_hat is subtracted too, as in LayerNorm, although no mean was subtracted from x."""

    expects = "the same number for the whole row"

    @staticmethod
    def rmsnorm_backward(dout, cache):
        dx, dg = reference.rmsnorm_backward(dout, cache)
        shift = (dout * cache.g).mean(axis=-1, keepdims=True)
        return dx - cache.r * shift, dg


class RmsnormWithoutItsGain(Rmsnorm):
    """dx without the factor g."""

    expects = "g is forgotten"

    @staticmethod
    def rmsnorm_backward(dout, cache):
        dx, _ = reference.rmsnorm_backward(dout, cache._replace(g=np.ones_like(cache.g)))
        _, dg = reference.rmsnorm_backward(dout, cache)
        return dx, dg


class SoftCrossEntropy:
    soft_cross_entropy_forward = staticmethod(reference.soft_cross_entropy_forward)


class SoftCrossEntropyWithoutTheTemperature(SoftCrossEntropy):
    """p - q without the temperature: the square of the forward, and the division by T, are forgotten."""

    expects = "factor temperature missing"

    @staticmethod
    def soft_cross_entropy_backward(dloss, cache):
        dlogits, dtargets = reference.soft_cross_entropy_backward(dloss, cache)
        return dlogits / cache.temperature, dtargets


class SoftCrossEntropyWithASquareTooMany(SoftCrossEntropy):
    """T^2 (p - q): the logits were divided by T, which is forgotten."""

    expects = "division by temperature missing"

    @staticmethod
    def soft_cross_entropy_backward(dloss, cache):
        dlogits, dtargets = reference.soft_cross_entropy_backward(dloss, cache)
        return dlogits * cache.temperature, dtargets


class SoftCrossEntropyOfAFixedTeacher(SoftCrossEntropy):
    """The teacher's logits get no gradient, as if they were constants."""

    expects = "zero everywhere"

    @staticmethod
    def soft_cross_entropy_backward(dloss, cache):
        dlogits, dtargets = reference.soft_cross_entropy_backward(dloss, cache)
        return dlogits, np.zeros_like(dtargets)


class CosineLoss:
    cosine_loss_forward = staticmethod(reference.cosine_loss_forward)


class CosineLossWithoutTheLength(CosineLoss):
    """The length of a is taken as a constant: its gradient has a part along a."""

    expects = "a multiple of a"

    @staticmethod
    def cosine_loss_backward(dloss, cache):
        _, db = reference.cosine_loss_backward(dloss, cache)
        dcosine = -(cache.share * dloss)[:, None]
        da = dcosine * cache.b / cache.length
        return da.reshape(cache.shape), db


class CosineLossWithTheWrongSign(CosineLoss):
    """The gradient of the cosine, not of one minus the cosine."""

    expects = "sign"

    @staticmethod
    def cosine_loss_backward(dloss, cache):
        da, db = reference.cosine_loss_backward(dloss, cache)
        return -da, -db


class CosineLossExchanged(CosineLoss):
    """The two gradients are exchanged."""

    expects = "gradient of"

    @staticmethod
    def cosine_loss_backward(dloss, cache):
        da, db = reference.cosine_loss_backward(dloss, cache)
        return db, da

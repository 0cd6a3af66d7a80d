"""Wrong dropouts and cross-entropies."""

import numpy as np

from minigpt.ops import reference
from minigpt.ops.random_keys import keep_mask


class Dropout:
    dropout_forward = staticmethod(reference.dropout_forward)


class DropoutNotRescaled(Dropout):
    """dx = dout keep: the division by 1 - rate is missing."""

    expects = "division by 1 - rate missing"

    @staticmethod
    def dropout_backward(dout, cache):
        rate, key = cache
        return dout if key is None else dout * keep_mask(key, rate, dout.shape, np)


class DropoutRescaledOnly(Dropout):
    """dx = dout / (1 - rate): what was dropped gets a gradient."""

    expects = "where the true one is"

    @staticmethod
    def dropout_backward(dout, cache):
        rate, key = cache
        return dout if key is None else dout * (1 / (1 - rate))


class DropoutByAnotherKey(Dropout):
    """The backward pass drops other elements than the forward pass."""

    expects = "another key"

    @staticmethod
    def dropout_backward(dout, cache):
        rate, key = cache
        return dout if key is None else reference.dropout_backward(dout, cache._replace(key=key.fold(1)))


class DropoutDrawnAgain(Dropout):
    """The backward pass draws a new mask each time."""

    expects = "second call"

    @staticmethod
    def dropout_backward(dout, cache):
        return dout * (np.random.random(dout.shape) > cache.rate) * (1 / (1 - cache.rate))


class DropoutForwardNotRescaled:
    """The forward pass forgets to divide by 1 - rate, and the backward pass agrees."""

    expects = "division by 1 - rate missing"

    @staticmethod
    def dropout_forward(x, *, rate, key):
        out, cache = reference.dropout_forward(x, rate=rate, key=key)
        return out if key is None else out * (1 - rate), cache

    @staticmethod
    def dropout_backward(dout, cache):
        dx = reference.dropout_backward(dout, cache)
        return dx if cache.key is None else dx * (1 - cache.rate)


class CrossEntropy:
    cross_entropy_forward = staticmethod(reference.cross_entropy_forward)


class IgnoredTargetsCounted(CrossEntropy):
    """The rows whose target is -100 get a gradient too."""

    expects = "is ignored (-100)"

    @staticmethod
    def cross_entropy_backward(dloss, cache):
        everyone = np.full_like(cache.share, cache.share.max())
        return reference.cross_entropy_backward(dloss, cache._replace(share=everyone))


class WeightsForgotten:
    """The loss is weighted, its gradient is not."""

    expects = "without weights"

    @staticmethod
    def cross_entropy_forward(logits, targets, *, weights=None, normalizer=None):
        loss, _ = reference.cross_entropy_forward(logits, targets, weights=weights, normalizer=normalizer)
        return loss, reference.cross_entropy_forward(logits, targets, normalizer=normalizer)[1]

    cross_entropy_backward = staticmethod(reference.cross_entropy_backward)


class SumForMean(CrossEntropy):
    """p - onehot, without the division by the number of targets."""

    expects = "takes a mean over"

    @staticmethod
    def cross_entropy_backward(dloss, cache):
        return reference.cross_entropy_backward(dloss, cache) * (cache.share > 0).sum().astype(cache.p.dtype)


class NormalizerForgotten:
    """The gradient is divided by the number of targets of this part, not by that of the whole batch."""

    expects = "normalizer"

    @staticmethod
    def cross_entropy_forward(logits, targets, *, weights=None, normalizer=None):
        loss, cache = reference.cross_entropy_forward(logits, targets, weights=weights, normalizer=normalizer)
        return loss, cache if normalizer is None else cache._replace(share=(cache.share > 0).astype(logits.dtype))

    cross_entropy_backward = staticmethod(reference.cross_entropy_backward)


class OneHotForgotten(CrossEntropy):
    """dlogits = p: the right answer is never pushed up."""

    expects = "one-hot"

    @staticmethod
    def cross_entropy_backward(dloss, cache):
        return cache.p * (cache.share * dloss).reshape(*cache.p.shape[:-1], 1)


class OneHotAdded(CrossEntropy):
    """dlogits = p + onehot: a sign."""

    expects = "one-hot"

    @staticmethod
    def cross_entropy_backward(dloss, cache):
        right = reference.cross_entropy_backward(dloss, cache)
        return 2 * OneHotForgotten.cross_entropy_backward(dloss, cache) - right


class LossGradientForgotten(CrossEntropy):
    """Computes the gradient for dloss = 1, whatever comes in."""

    expects = "dout"

    @staticmethod
    def cross_entropy_backward(dloss, cache):
        return reference.cross_entropy_backward(cache.p.dtype.type(1), cache)


class SoftmaxOverflows:
    """exp without taking the largest logit away first: right for small logits, NaN for large ones."""

    expects = "NaN"

    @staticmethod
    def cross_entropy_forward(logits, targets, *, weights=None, normalizer=None):
        loss, cache = reference.cross_entropy_forward(logits, targets, weights=weights, normalizer=normalizer)
        e = np.exp(logits)
        return loss, cache._replace(p=e / e.sum(axis=-1, keepdims=True))

    cross_entropy_backward = staticmethod(reference.cross_entropy_backward)

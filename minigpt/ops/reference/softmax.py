"""Softmax: scores become probabilities."""

from typing import NamedTuple

from minigpt.device.arrays import Array, array_module


class SoftmaxCache(NamedTuple):
    p: Array


def softmax_forward(x):
    """x (*,N) -> p (*,N)

    p[i] = exp(x[i]) / sum_j exp(x[j]) over the last axis. Subtracting the largest x first changes nothing, for it
    cancels, and keeps exp from overflowing.
    """
    xp = array_module(x)
    e = xp.exp(x - x.max(axis=-1, keepdims=True))
    p = e / e.sum(axis=-1, keepdims=True)
    return p, SoftmaxCache(p)


def softmax_backward(dp, cache: SoftmaxCache):
    """dp (*,N) -> dx (*,N)

    The derivative of p[i] with respect to x[j] is p[i] (1[i=j] - p[j]), so dx = p (dp - sum(p dp)): only the
    difference of dp from its average under p counts.
    """
    (p,) = cache
    # p = softmax(x)
    average = (p * dp).sum(axis=-1, keepdims=True)
    dx = p * (dp - average)
    return dx

"""Softmax: scores become probabilities."""

from typing import NamedTuple

from minigpt.device.arrays import Array, array_module


class SoftmaxCache(NamedTuple):
    p: Array


def softmax_forward(x):
    """x (*,N) -> p (*,N)

    p[i] = exp(x[i]) / sum_j exp(x[j]) over the last axis. Taking the largest x away first changes nothing (it cancels)
    and keeps exp from overflowing.
    """
    xp = array_module(x)
    e = xp.exp(x - x.max(axis=-1, keepdims=True))
    p = e / e.sum(axis=-1, keepdims=True)
    return p, SoftmaxCache(p)


def softmax_backward(dp, cache: SoftmaxCache):
    """dp (*,N) -> dx (*,N)

    dp[i]/dx[j] = p[i] (1[i=j] - p[j]), so dx = p (dp - sum(p dp)): what counts is dp above its own average.
    """
    (p,) = cache
    # p = softmax(x)
    average = (p * dp).sum(axis=-1, keepdims=True)
    dx = p * (dp - average)
    return dx

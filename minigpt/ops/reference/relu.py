"""ReLU: what is negative becomes 0 (Nair and Hinton 2010; the function of Vaswani et al. 2017, equation 2)."""

from typing import NamedTuple

from minigpt.device.arrays import Array, array_module


class ReluCache(NamedTuple):
    is_open: Array


def relu_forward(x):
    """x (*) -> out (*)

    out = max(x, 0)
    """
    xp = array_module(x)
    out = xp.maximum(x, 0)
    is_open = x > 0
    return out, ReluCache(is_open)


def relu_backward(dout, cache: ReluCache):
    """dout (*) -> dx (*)

    dx = dout where x > 0, and 0 elsewhere, also at x = 0, where there is no slope.
    """
    # out = xp.maximum(x, 0)
    dx = dout * cache.is_open
    return dx

"""SiLU, also called swish: x times its sigmoid (Hendrycks and Gimpel 2016, section 2; Elfwing et al. 2017)."""

from typing import NamedTuple

from minigpt.device.arrays import Array, array_module


class SiluCache(NamedTuple):
    x: Array
    s: Array


def silu_forward(x):
    """x (*) -> out (*)

    out = x s,   s = 1 / (1 + exp(-x))
    """
    xp = array_module(x)
    e = xp.exp(-abs(x))  # at most 1: it does not overflow
    s = xp.where(x < 0, e, 1) / (1 + e)
    s = s.astype(x.dtype, copy=False)
    out = x * s
    return out, SiluCache(x, s)


def silu_backward(dout, cache: SiluCache):
    """dout (*) -> dx (*)

    dx = dout (s + x s (1 - s)): out depends on x as a factor, and through s, whose slope is s (1 - s).
    """
    x, s = cache
    # s = 1 / (1 + exp(-x))
    ds_dx = s * (1 - s)
    # out = x * s
    dx = dout * (s + x * ds_dx)
    return dx

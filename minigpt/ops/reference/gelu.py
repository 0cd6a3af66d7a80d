"""GELU, in the tanh form of the released models (Hendrycks and Gimpel 2016, section 2)."""

import math
from typing import NamedTuple

from minigpt.device.arrays import Array, array_module

_C = math.sqrt(2 / math.pi)
_A = 0.044715


class GeluCache(NamedTuple):
    x: Array
    t: Array


def gelu_forward(x):
    """x (*) -> out (*)

    out = x (1 + t) / 2,   t = tanh(u),   u = sqrt(2/pi) (x + 0.044715 x^3): x times a smooth switch between 0 and 1.
    """
    xp = array_module(x)
    u = _C * (x + _A * x * x * x)
    t = xp.tanh(u)
    out = 0.5 * x * (1 + t)
    return out, GeluCache(x, t)


def gelu_backward(dout, cache: GeluCache):
    """dout (*) -> dx (*)

    dx = dout ((1 + t) / 2 + x/2 (1 - t^2) du/dx): out depends on x as a factor, and through the switch.
    """
    x, t = cache
    # u = _C * (x + _A * x**3)
    du_dx = _C * (1 + 3 * _A * x * x)
    # t = tanh(u)
    dt_dx = (1 - t * t) * du_dx
    # out = 0.5 * x * (1 + t)
    dx = dout * (0.5 * (1 + t) + 0.5 * x * dt_dx)
    return dx

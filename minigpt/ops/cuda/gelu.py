"""GELU: kernels in gelu.cu."""

from typing import NamedTuple

from minigpt.device.arrays import Array, array_module
from minigpt.ops.cuda.kernels import launch_each


class GeluCache(NamedTuple):
    x: Array


def gelu_forward(x):
    """x (*) -> out (*)"""
    xp = array_module(x)
    x = xp.ascontiguousarray(x)
    out = gelu(x, xp.empty_like(x))
    return out, GeluCache(x)


def gelu_backward(dout, cache: GeluCache):
    """dout (*) -> dx (*)"""
    xp = array_module(dout)
    dout = xp.ascontiguousarray(dout)
    dx = xp.empty_like(cache.x)
    return gelu_slope(dout, cache.x, dx)


def gelu(x: Array, out: Array) -> Array:
    """x (*) -> out (*), which is overwritten with gelu(x); both are contiguous"""
    return launch_each("gelu", "gelu_forward", out, x, x.size)


def gelu_slope(dout: Array, x: Array, dx: Array) -> Array:
    """dout (*), x (*) -> dx (*), which is overwritten with dout gelu'(x) and may be dout itself; all are contiguous"""
    return launch_each("gelu", "gelu_backward", dx, dout, x, x.size)

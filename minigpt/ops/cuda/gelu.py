"""GELU: kernels in gelu.cu."""

from typing import NamedTuple

from minigpt.device.arrays import Array, array_module
from minigpt.ops.cuda.kernels import launch_each


class GeluCache(NamedTuple):
    x: Array


def gelu_forward(x):
    """x (*) -> out (*)"""
    x = array_module(x).ascontiguousarray(x)
    return gelu(x, array_module(x).empty_like(x)), GeluCache(x)


def gelu_backward(dout, cache: GeluCache):
    """dout (*) -> dx (*)"""
    xp = array_module(dout)
    return gelu_slope(xp.ascontiguousarray(dout), cache.x, xp.empty_like(cache.x))


def gelu(x: Array, out: Array) -> Array:
    """x (*) -> gelu(x) in out (*), both in one piece"""
    return launch_each("gelu", "gelu_forward", out, x, x.size)


def gelu_slope(dout: Array, x: Array, dx: Array) -> Array:
    """dout (*), x (*) -> dout gelu'(x) in dx (*), which may be dout, all in one piece"""
    return launch_each("gelu", "gelu_backward", dx, dout, x, x.size)

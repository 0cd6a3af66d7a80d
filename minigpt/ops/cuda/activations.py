"""What may stand between the two products of an MLP: kernels in gelu.cu and activations.cu.

The cache keeps the input: that is in memory already, and a kernel computes the slope from it while it multiplies.
"""

from typing import NamedTuple

from minigpt.device.arrays import Array, array_module
from minigpt.ops.cuda.kernels import launch_each

# A student reads gelu.cu first (lesson 20): it is written out, and not made from the templates of activations.cu.
FILES = {"gelu": "gelu", "gelu_exact": "activations", "relu": "activations", "silu": "activations"}


class GeluCache(NamedTuple):
    x: Array


class GeluExactCache(NamedTuple):
    x: Array


class ReluCache(NamedTuple):
    x: Array


class SiluCache(NamedTuple):
    x: Array


def gelu_forward(x):
    """x (*) -> out (*)"""
    out, x = _forward("gelu", x)
    return out, GeluCache(x)


def gelu_backward(dout, cache: GeluCache):
    """dout (*) -> dx (*)"""
    return _backward("gelu", dout, cache.x)


def gelu_exact_forward(x):
    """x (*) -> out (*)"""
    out, x = _forward("gelu_exact", x)
    return out, GeluExactCache(x)


def gelu_exact_backward(dout, cache: GeluExactCache):
    """dout (*) -> dx (*)"""
    return _backward("gelu_exact", dout, cache.x)


def relu_forward(x):
    """x (*) -> out (*)"""
    out, x = _forward("relu", x)
    return out, ReluCache(x)


def relu_backward(dout, cache: ReluCache):
    """dout (*) -> dx (*)"""
    return _backward("relu", dout, cache.x)


def silu_forward(x):
    """x (*) -> out (*)"""
    out, x = _forward("silu", x)
    return out, SiluCache(x)


def silu_backward(dout, cache: SiluCache):
    """dout (*) -> dx (*)"""
    return _backward("silu", dout, cache.x)


def activate(name: str, x: Array, out: Array) -> Array:
    """x (*) -> out (*), which is overwritten with act(x), name being that of act; both are contiguous"""
    return launch_each(FILES[name], f"{name}_forward", out, x, x.size)


def activate_backward(name: str, dout: Array, x: Array, dx: Array) -> Array:
    """dout (*), x (*) -> dx (*), which is overwritten with dout act'(x) and may be dout itself; all are contiguous"""
    return launch_each(FILES[name], f"{name}_backward", dx, dout, x, x.size)


def _forward(name, x):
    xp = array_module(x)
    x = xp.ascontiguousarray(x)
    return activate(name, x, xp.empty_like(x)), x


def _backward(name, dout, x):
    xp = array_module(dout)
    dout = xp.ascontiguousarray(dout)
    return activate_backward(name, dout, x, xp.empty_like(x))

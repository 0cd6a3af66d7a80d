"""GELU, and the two linear maps around it: kernels in gelu.cu."""

from typing import NamedTuple

from minigpt.backend import Array, array_module
from minigpt.fast.cuda.kernels import THREADS, blocks, launch, ours
from minigpt.fast.cuda.products import product, weight_gradients


class GeluCache(NamedTuple):
    x: Array


def gelu_forward(x):
    """x (*) -> out (*)"""
    if not ours(x):
        return NotImplemented
    x = array_module(x).ascontiguousarray(x)
    return _forward(x), GeluCache(x)


def gelu_backward(dout, cache: GeluCache):
    """dout (*) -> dx (*)"""
    return _backward(dout, cache.x)


def _forward(x, b=None):
    a = array_module(x).empty_like(x)
    grid = blocks(x.size, THREADS), 1, 1
    launch("gelu", "gelu_forward", grid, (THREADS, 1, 1), a, x, b, x.size, x.shape[-1] if x.ndim else 1)
    return a


def _backward(da, x, b=None, a=None):
    xp = array_module(x)
    da, dx = xp.ascontiguousarray(da), xp.empty_like(x)
    grid = blocks(x.size, THREADS), 1, 1
    launch("gelu", "gelu_backward", grid, (THREADS, 1, 1), dx, a, da, x, b, x.size, x.shape[-1] if x.ndim else 1)
    return dx


class MlpCache(NamedTuple):
    x: Array
    w1: Array
    b1: Array
    w2: Array
    f: Array


def mlp_forward(x, w1, b1, w2, b2, *, grad=True):
    """x (*,C), w1 (C,F), b1 (F,), w2 (F,C), b2 (C,) -> out (*,C)

    Kept is f = x w1. gelu(f + b1) comes back in the backward pass, beside its slope.
    """
    if not ours(x, w1, b1, w2, b2):
        return NotImplemented
    b1 = array_module(x).ascontiguousarray(b1)
    f = product(x.reshape(-1, x.shape[-1]), w1)
    out = product(_forward(f, b1), w2, bias=b2)
    return out.reshape(*x.shape[:-1], w2.shape[1]), MlpCache(x, w1, b1, w2, f) if grad else None


def mlp_backward(dout, cache: MlpCache):
    """dout (*,C) -> dx (*,C), dw1 (C,F), db1 (F,), dw2 (F,C), db2 (C,)"""
    x, w1, b1, w2, f = cache
    xp = array_module(x)
    rows, drows = x.reshape(-1, x.shape[-1]), xp.ascontiguousarray(dout.reshape(-1, dout.shape[-1]))
    a = xp.empty_like(f)
    df = _backward(product(drows, w2.T), f, b1, a)
    dx = product(df, w1.T).reshape(x.shape)
    return dx, *weight_gradients(rows, df), *weight_gradients(a, drows)

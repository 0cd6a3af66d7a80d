"""The two linear maps of a block, and GELU between them: three passes over memory less than one after the other."""

from typing import NamedTuple

from minigpt.device.arrays import Array, array_module
from minigpt.ops.cuda.products import product, product_gelu, product_gelu_backward, weight_gradients


class MlpCache(NamedTuple):
    x: Array
    w1: Array
    w2: Array
    f: Array
    a: Array


def mlp_forward(x, w1, b1, w2, b2, *, grad=True):
    """x (*,C), w1 (C,F), b1 (F,), w2 (F,C), b2 (C,) -> out (*,C)

    Kept are f = x w1 + b1 and a = gelu(f). From f alone a could be had again, for half the memory, but the first
    product writes both and the backward pass then needs no kernel between products.
    """
    a, f = product_gelu(x.reshape(-1, x.shape[-1]), w1, b1)
    out = product(a, w2, bias=b2)
    return out.reshape(*x.shape[:-1], w2.shape[1]), MlpCache(x, w1, w2, f, a) if grad else None


def mlp_backward(dout, cache: MlpCache):
    """dout (*,C) -> dx (*,C), dw1 (C,F), db1 (F,), dw2 (F,C), db2 (C,)"""
    x, w1, w2, f, a = cache
    rows, drows = x.reshape(-1, x.shape[-1]), array_module(x).ascontiguousarray(dout.reshape(-1, dout.shape[-1]))
    df = product_gelu_backward(drows, w2.T, f)
    dx = product(df, w1.T).reshape(x.shape)
    return dx, *weight_gradients(rows, df), *weight_gradients(a, drows)

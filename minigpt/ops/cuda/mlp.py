"""The two linear layers of a block and GELU between them: three passes over memory less than by separate operations."""

from typing import NamedTuple

from minigpt.device.arrays import Array, array_module
from minigpt.ops.cuda.kernels import accepts
from minigpt.ops.cuda.products import product, product_gelu, product_gelu_backward, weight_gradients


class MlpCache(NamedTuple):
    x: Array
    w1: Array
    w2: Array
    f: Array
    a: Array


def mlp_supports(x, w1, b1, w2, b2, *, activation="gelu", grad=True) -> str | None:
    """GELU in the tanh form, which products take along, and biases. The reference calls kernels one by one."""
    if activation != "gelu":
        return f"it takes gelu between the products, not {activation}"
    if b1 is None or b2 is None:
        return "it takes two biases"
    return accepts(x, w1, b1, w2, b2)


def mlp_forward(x, w1, b1, w2, b2, *, activation="gelu", grad=True):
    """x (*,C), w1 (C,F), b1 (F,), w2 (F,C), b2 (C,) -> out (*,C)

    The cache keeps f = x w1 + b1 and a = gelu(f). The backward pass could compute a from f again, which would need half
    the memory; but the first product writes both, and so no kernel is needed between the products of the backward pass.
    """
    *leading, inputs = x.shape
    rows = x.reshape(-1, inputs)
    a, f = product_gelu(rows, w1, b1)
    out = product(a, w2, bias=b2)
    out = out.reshape(*leading, w2.shape[1])
    if not grad:
        return out, None
    return out, MlpCache(x, w1, w2, f, a)


def mlp_backward(dout, cache: MlpCache):
    """dout (*,C) -> dx (*,C), dw1 (C,F), db1 (F,), dw2 (F,C), db2 (C,)"""
    x, w1, w2, f, a = cache
    rows = x.reshape(-1, x.shape[-1])
    drows = dout.reshape(-1, dout.shape[-1])
    drows = array_module(x).ascontiguousarray(drows)
    df = product_gelu_backward(drows, w2.T, f)
    dx = product(df, w1.T)
    dx = dx.reshape(x.shape)
    dw1, db1 = weight_gradients(rows, df)
    dw2, db2 = weight_gradients(a, drows)
    return dx, dw1, db1, dw2, db2

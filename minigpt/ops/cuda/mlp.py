"""The two linear layers of a block and GELU between them: three passes over memory less than by separate operations.

The products take GELU in the tanh form along. Another function between them, or no first bias, is a kernel of its own.
"""

from typing import NamedTuple

from minigpt.device.arrays import Array, array_module
from minigpt.ops.cuda.activations import activate, activate_backward
from minigpt.ops.cuda.products import product, product_gelu, product_gelu_backward, weight_gradients


class MlpCache(NamedTuple):
    x: Array
    w1: Array
    w2: Array
    f: Array
    a: Array
    activation: str
    has_bias: tuple[bool, bool]


def mlp_forward(x, w1, b1, w2, b2, *, activation="gelu", grad=True):
    """x (*,C), w1 (C,F), b1 (F,), w2 (F,C), b2 (C,) -> out (*,C)

    The cache keeps f = x w1 + b1 and a = act(f). The backward pass could compute a from f again, which would need half
    the memory; but the first product writes both, and so no kernel is needed between the products of the backward pass.
    """
    *leading, inputs = x.shape
    rows = x.reshape(-1, inputs)
    if _is_taken_along(activation, b1 is not None):
        a, f = product_gelu(rows, w1, b1)
    else:
        f = product(rows, w1, bias=b1)
        a = activate(activation, f, array_module(f).empty_like(f))
    out = product(a, w2, bias=b2)
    out = out.reshape(*leading, w2.shape[1])
    if not grad:
        return out, None
    return out, MlpCache(x, w1, w2, f, a, activation, (b1 is not None, b2 is not None))


def mlp_backward(dout, cache: MlpCache):
    """dout (*,C) -> dx (*,C), dw1 (C,F), db1 (F,), dw2 (F,C), db2 (C,)

    None for the gradient of a bias that was not there.
    """
    x, w1, w2, f, a, activation, (has_b1, has_b2) = cache
    rows = x.reshape(-1, x.shape[-1])
    drows = dout.reshape(-1, dout.shape[-1])
    drows = array_module(x).ascontiguousarray(drows)
    if _is_taken_along(activation, has_b1):
        df = product_gelu_backward(drows, w2.T, f)
    else:
        da = product(drows, w2.T)
        df = activate_backward(activation, da, f, da)
    dx = product(df, w1.T)
    dx = dx.reshape(x.shape)
    dw1, db1 = weight_gradients(rows, df, has_b1)
    dw2, db2 = weight_gradients(a, drows, has_b2)
    return dx, dw1, db1, dw2, db2


def _is_taken_along(activation: str, has_bias: bool) -> bool:
    """Can the first product, and that of the backward pass, compute this function before they write?"""
    return activation == "gelu" and has_bias

"""Linear: one product forward, which adds the bias, and two backward; the gradient of the bias is a sum of columns."""

from typing import NamedTuple

from minigpt.device.arrays import Array
from minigpt.ops.cuda.products import product, weight_gradients


class LinearCache(NamedTuple):
    x: Array
    w: Array
    b: Array | None


def linear_forward(x, w, b=None):
    """x (*,I), w (I,O), b (O,) -> out (*,O)"""
    *leading, inputs = x.shape
    rows = x.reshape(-1, inputs)
    out = product(rows, w, bias=b)
    out = out.reshape(*leading, w.shape[1])
    return out, LinearCache(x, w, b)


def linear_backward(dout, cache: LinearCache):
    """dout (*,O) -> dx (*,I), dw (I,O), db (O,), and None for db where there was no b"""
    x, w, b = cache
    rows = x.reshape(-1, x.shape[-1])
    drows = dout.reshape(-1, dout.shape[-1])
    dx = product(drows, w.T)
    dx = dx.reshape(x.shape)
    dw, db = weight_gradients(rows, drows, b is not None)
    return dx, dw, db

"""Linear: a product, and the sums that its bias wants."""

from typing import NamedTuple

from minigpt.device.arrays import Array
from minigpt.ops.cuda.products import product, weight_gradients


class LinearCache(NamedTuple):
    x: Array
    w: Array
    b: Array | None


def linear_forward(x, w, b=None):
    """x (*,I), w (I,O), b (O,) -> out (*,O)"""
    out = product(x.reshape(-1, x.shape[-1]), w, bias=b)
    return out.reshape(*x.shape[:-1], w.shape[1]), LinearCache(x, w, b)


def linear_backward(dout, cache: LinearCache):
    """dout (*,O) -> dx (*,I), dw (I,O), db (O,), and None for db where there was no b"""
    x, w, b = cache
    rows, drows = x.reshape(-1, x.shape[-1]), dout.reshape(-1, dout.shape[-1])
    dx = product(drows, w.T).reshape(x.shape)
    return dx, *weight_gradients(rows, drows, b is not None)

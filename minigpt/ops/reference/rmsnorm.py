"""RMSNorm (Zhang and Sennrich 2019, equation 4): LayerNorm without the mean and without a bias."""

from typing import NamedTuple

from minigpt.device.arrays import Array, array_module


class RmsnormCache(NamedTuple):
    x_hat: Array
    r: Array
    g: Array


def rmsnorm_forward(x, g, *, eps=1e-6):
    """x (*,C), g (C,) -> out (*,C)

    out = g x_hat,   x_hat = x / sqrt(mean(x^2) + eps),   mean over the last axis.
    """
    xp = array_module(x, g)
    square = x * x
    mean_square = square.mean(axis=-1, keepdims=True)
    r = 1 / xp.sqrt(mean_square + eps)
    x_hat = x * r
    out = g * x_hat
    cache = RmsnormCache(x_hat, r, g)
    return out, cache


def rmsnorm_backward(dout, cache: RmsnormCache):
    """dout (*,C) -> dx (*,C), dg (C,)

    dx = r (dx_hat - x_hat mean(dx_hat x_hat)). Stretching x does not change x_hat, so the part of dx_hat in this
    direction is subtracted; adding a number to x does, other than in LayerNorm.
    """
    x_hat, r, g = cache
    leading = dout.ndim - 1
    rows = tuple(range(leading))
    # out = g * x_hat
    product = dout * x_hat
    dg = product.sum(axis=rows)
    dx_hat = dout * g
    # x_hat = x * r, where r depends on x
    product = dx_hat * x_hat
    stretch = product.mean(axis=-1, keepdims=True)
    dx = r * (dx_hat - x_hat * stretch)
    return dx, dg

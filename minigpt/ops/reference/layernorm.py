"""Layer normalisation (Ba, Kiros and Hinton 2016, equations 3 and 4)."""

from typing import NamedTuple

from minigpt.device.arrays import Array, array_module


class LayernormCache(NamedTuple):
    x_hat: Array
    rstd: Array
    g: Array


def layernorm_forward(x, g, b, *, eps=1e-5):
    """x (*,C), g (C,), b (C,) -> out (*,C)

    out = g x_hat + b,   x_hat = (x - mean) / sqrt(var + eps),   mean and (biased) variance over the last axis.
    """
    xp = array_module(x, g, b)
    mean = x.mean(axis=-1, keepdims=True)
    x_mean = x - mean
    var = (x_mean * x_mean).mean(axis=-1, keepdims=True)
    rstd = 1 / xp.sqrt(var + eps)
    x_hat = x_mean * rstd
    out = g * x_hat + b
    return out, LayernormCache(x_hat, rstd, g)


def layernorm_backward(dout, cache: LayernormCache):
    """dout (*,C) -> dx (*,C), dg (C,), db (C,)

    dx = rstd (dx_hat - mean(dx_hat) - x_hat mean(dx_hat x_hat)). Adding a number to x, or stretching x, does not
    change x_hat; so the parts of dx_hat in these two directions are subtracted.
    """
    x_hat, rstd, g = cache
    leading = dout.ndim - 1
    rows = tuple(range(leading))
    # out = g * x_hat + b
    db = dout.sum(axis=rows)
    dg = (dout * x_hat).sum(axis=rows)
    dx_hat = dout * g
    # x_hat = x_mean * rstd, where x_mean depends on x by the mean (shift), and rstd by the variance (stretch)
    shift = dx_hat.mean(axis=-1, keepdims=True)
    stretch = (dx_hat * x_hat).mean(axis=-1, keepdims=True)
    dx = rstd * (dx_hat - shift - x_hat * stretch)
    return dx, dg, db

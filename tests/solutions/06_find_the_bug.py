import numpy as np


def layernorm_forward(x, g, b, *, eps=1e-5):
    """x (*,C), g (C,), b (C,) -> out (*,C)"""
    x_mean = x - np.mean(x, axis=-1, keepdims=True)
    var = np.mean(x_mean * x_mean, axis=-1, keepdims=True)
    rstd = 1 / np.sqrt(var + eps)
    x_hat = x_mean * rstd
    out = g * x_hat + b
    return out, (out, x_hat, rstd, g)


def layernorm_backward(dout, cache):
    """dout (*,C) -> dx (*,C), dg (C,), db (C,)"""
    out, x_hat, rstd, g = cache
    rows = tuple(range(dout.ndim - 1))
    # out = g * x_hat + b
    dg = (dout * x_hat).sum(axis=rows)
    db = dout.sum(axis=rows)
    dx_hat = dout * g
    # x_hat = x_mean * rstd
    shift = dx_hat.mean(axis=-1, keepdims=True)
    stretch = (dx_hat * x_hat).mean(axis=-1, keepdims=True)
    dx = rstd * (dx_hat - shift - x_hat * stretch)
    return dx, dg, db

import numpy as np


def layernorm_forward(x, g, b, *, eps=1e-5):
    """x (*,C), g (C,), b (C,) -> out (*,C)

    out = g x_hat + b,   x_hat = (x - mean) / sqrt(var + eps),   mean and (biased) variance over the last axis.
    """
    x_mean = x - np.mean(x, axis=-1, keepdims=True)
    rstd = 1 / np.sqrt(np.mean(x_mean * x_mean, axis=-1, keepdims=True) + eps)
    x_hat = x_mean * rstd
    out = g * x_hat + b
    return out, (x_mean, x_hat, rstd, g)


def layernorm_backward(dout, cache):
    """dout (*,C) -> dx (*,C), dg (C,), db (C,)

    First line by line, as in section 3 of the lesson. When every check is happy, try the closed form: three lines.
    """
    x_mean, x_hat, rstd, g = cache
    rows = tuple(range(dout.ndim - 1))  # all axes but the last
    # out = g * x_hat + b
    db = dout.sum(axis=rows)
    dg = (dout * x_hat).sum(axis=rows)
    dx_hat = dout * g
    # x_hat = x_mean * rstd, and rstd = 1 / sqrt(mean(x_mean * x_mean) + eps)
    drstd = (dx_hat * x_mean).sum(axis=-1, keepdims=True)
    dx_mean = dx_hat * rstd - x_mean * rstd**3 * drstd / x_mean.shape[-1]
    # x_mean = x - mean(x)
    dx = dx_mean - dx_mean.mean(axis=-1, keepdims=True)
    return dx, dg, db

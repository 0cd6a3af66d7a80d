import numpy as np


def layernorm_forward(x, g, b, *, eps=1e-5):
    mean = x.mean(axis=-1, keepdims=True)
    centred = x - mean
    rstd = 1 / np.sqrt((centred**2).mean(axis=-1, keepdims=True) + eps)
    x_hat = (centred * rstd).astype(x.dtype)
    return g * x_hat + b, (x_hat, g, rstd)


def layernorm_backward(dout, cache):
    x_hat, g, rstd = cache
    rows = tuple(range(dout.ndim - 1))
    d = dout * g
    dx = rstd * (d - d.mean(axis=-1, keepdims=True) - x_hat * (d * x_hat).mean(axis=-1, keepdims=True))
    return dx.astype(dout.dtype), (dout * x_hat).sum(axis=rows), dout.sum(axis=rows)

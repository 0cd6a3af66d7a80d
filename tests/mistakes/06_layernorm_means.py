import numpy as np


def layernorm_forward(x, g, b, *, eps=1e-5):
    """x (*,C), g (C,), b (C,) -> out (*,C)"""
    mu = x.mean(axis=-1, keepdims=True)
    var = x.var(axis=-1, keepdims=True)
    std = np.sqrt(var + eps)
    x_hat = (x - mu) / std
    out = g * x_hat + b
    return out, (x_hat, std, g)


def layernorm_backward(dout, cache):
    """dout (*,C) -> dx (*,C), dg (C,), db (C,)"""
    x_hat, std, g = cache
    C = dout.shape[-1]
    db = dout.reshape(-1, C).sum(axis=0)
    dg = (dout * x_hat).reshape(-1, C).sum(axis=0)
    dx_hat = dout * g
    dx = dx_hat - dx_hat.mean(axis=-1, keepdims=True) - x_hat * (dx_hat * x_hat).mean(axis=-1, keepdims=True)
    dx = dx / std
    return dx, dg, db

import numpy as np


def forward(x, g, *, eps):
    """x (T,C), g (C,) -> out (T,C)"""
    square = x * x
    mean_square = square.mean(axis=-1, keepdims=True)
    rms = np.sqrt(mean_square + eps)
    rrms = 1 / rms
    x_hat = x * rrms
    out = g * x_hat
    return out


def backward(dout, v):
    """dout (T,C) -> dx (T,C), dg (C,). The values of the forward are v.x, v.g, v.rms, v.x_hat, ..."""
    # out = g * x_hat
    dg = (dout * v.x_hat).sum(axis=0)
    dx_hat = dout * v.g
    # x_hat = x * rrms
    dx = dx_hat * v.rrms
    drrms = (dx_hat * v.x).sum(axis=-1, keepdims=True)
    # rrms = 1 / rms
    drms = -drrms / v.rms**2
    # rms = np.sqrt(mean_square + eps)
    dmean_square = drms / (2 * v.rms)
    # mean_square = square.mean(axis=-1, keepdims=True)
    dsquare = np.broadcast_to(dmean_square, v.x.shape) / v.x.shape[-1]
    # square = x * x
    dx = dx + 2 * v.x * dsquare
    return dx, dg


def closed_form(dx_hat, x_hat, rrms):
    """dx_hat (T,C), x_hat (T,C), rrms (T,1) -> dx (T,C)"""
    return rrms * (dx_hat - x_hat * (dx_hat * x_hat).mean(axis=-1, keepdims=True))

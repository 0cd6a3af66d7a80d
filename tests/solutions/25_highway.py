import numpy as np


def highway_forward(x, w, b, w_t, b_t):
    """x (N,C), w, w_t (C,C), b, b_t (C,) -> out (N,C)"""
    z = x @ w + b
    new = np.maximum(z, 0)
    z_t = x @ w_t + b_t
    t = 1 / (1 + np.exp(-z_t))
    out = t * new + (1 - t) * x
    return out


def highway_backward(dout, v):
    # out = t * new + (1 - t) * x
    dt = dout * v.new - dout * v.x
    dnew = dout * v.t
    dx = dout * (1 - v.t)
    # t = 1 / (1 + np.exp(-z_t))
    dz_t = dt * v.t * (1 - v.t)
    # z_t = x @ w_t + b_t
    dw_t = v.x.T @ dz_t
    db_t = dz_t.sum(axis=0)
    dx = dx + dz_t @ v.w_t.T
    # new = np.maximum(z, 0)
    dz = dnew * (v.z > 0)
    # z = x @ w + b
    dw = v.x.T @ dz
    db = dz.sum(axis=0)
    dx = dx + dz @ v.w.T
    return dx, dw, db, dw_t, db_t

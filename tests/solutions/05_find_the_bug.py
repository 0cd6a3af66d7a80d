import math

import numpy as np

C = math.sqrt(2 / math.pi)
A = 0.044715


def mlp_forward(x, w1, b1, w2, b2, *, grad=True):
    """x (*,C), w1 (C,F), b1 (F,), w2 (F,C), b2 (C,) -> out (*,C)"""
    rows = x.reshape(-1, x.shape[-1])
    f = rows @ w1 + b1
    t = np.tanh(C * (f + A * f * f * f))
    a = 0.5 * f * (1 + t)
    out = a @ w2 + b2
    return out.reshape(x.shape), (x, w1, w2, f, t, a)


def mlp_backward(dout, cache):
    """dout (*,C) -> dx (*,C), dw1 (C,F), db1 (F,), dw2 (F,C), db2 (C,)"""
    x, w1, w2, f, t, a = cache
    rows, dout = x.reshape(-1, x.shape[-1]), dout.reshape(-1, dout.shape[-1])
    # out = a @ w2 + b2
    da = dout @ w2.T
    dw2 = a.T @ dout
    db2 = dout.sum(axis=0)
    # a = gelu(f)
    slope = 0.5 * (1 + t) + 0.5 * f * (1 - t * t) * C * (1 + 3 * A * f * f)
    df = da * slope
    # f = rows @ w1 + b1
    dx = df @ w1.T
    dw1 = rows.T @ df
    db1 = df.sum(axis=0)
    return dx.reshape(x.shape), dw1, db1, dw2, db2

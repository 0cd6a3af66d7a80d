import numpy as np


def gate_forward(s, x, y):
    """s (T,1), x (T,C), y (T,C) -> out (T,C)"""
    e = np.exp(-s)
    n = 1 + e
    a = 1 / n
    kept = a * x
    b = 1 - a
    new = b * y
    out = kept + new
    return out


def gate_backward(dout, v):
    # out = kept + new
    dkept = dout
    dnew = dout
    # new = b * y
    dy = dnew * v.b
    db = (dnew * v.y).sum(axis=1, keepdims=True)
    # b = 1 - a
    da = -db
    # kept = a * x
    dx = dkept * v.a
    da = da + (dkept * v.x).sum(axis=1, keepdims=True)
    # a = 1 / n
    dn = -da / v.n**2
    # n = 1 + e
    de = dn
    # e = np.exp(-s)
    ds = -de * v.e
    return ds, dx, dy

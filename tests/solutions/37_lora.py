import numpy as np  # noqa: F401


def forward(x, w, bias, a, b, scale):
    """x (N,I), w (I,O), bias (O,), a (I,R), b (R,O) -> out (N,O) = x w + bias + scale x a b"""
    y = x @ a
    return x @ w + bias + scale * (y @ b)


def backward(dout, x, w, a, b, scale):
    """dout (N,O) -> dx (N,I), da (I,R), db (R,O)"""
    y = x @ a
    db = scale * (y.T @ dout)
    dy = scale * (dout @ b.T)
    da = x.T @ dy
    dx = dout @ w.T + dy @ a.T
    return dx, da, db


def merged(w, a, b, scale):
    """-> (I,O): the weight of a plain layer that computes the same"""
    return w + scale * (a @ b)

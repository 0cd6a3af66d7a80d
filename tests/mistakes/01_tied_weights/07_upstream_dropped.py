# expects: dshifted; yours is (1 - code²)
import numpy as np


def autoencoder_forward(x, w, b, c):
    """x (N,I), w (I,O), b (O,), c (I,) -> out (N,I)"""
    inner = x @ w
    shifted = inner + b
    code = np.tanh(shifted)
    restored = code @ w.T
    out = restored + c
    return out


def autoencoder_backward(dout, v):
    # out = restored + c
    drestored = dout
    dc = dout.sum(axis=0)
    # restored = code @ w.T
    dcode = drestored @ v.w
    dw = drestored.T @ v.code
    # code = np.tanh(shifted), whose derivative is 1 - tanh(shifted)²
    dshifted = 1 - v.code**2
    # shifted = inner + b
    dinner = dshifted
    db = dshifted.sum(axis=0)
    # inner = x @ w
    dx = dinner @ v.w.T
    dw = dw + v.x.T @ dinner
    return dx, dw, db, dc

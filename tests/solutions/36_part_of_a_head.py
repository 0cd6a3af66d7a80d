import numpy as np


def forward(x, angles, pairing):
    """x (T,D), angles (T,R) with 2 R <= D -> out (T,D)"""
    r = angles.shape[1]
    halves = slice(0, r), slice(r, 2 * r)
    neighbours = slice(0, 2 * r, 2), slice(1, 2 * r, 2)
    first, second = halves if pairing == "halves" else neighbours
    c, s = np.cos(angles), np.sin(angles)
    out = x.copy()
    out[:, first] = x[:, first] * c - x[:, second] * s
    out[:, second] = x[:, first] * s + x[:, second] * c
    return out


def backward(dout, angles, pairing):
    """dout (T,D) -> dx (T,D)"""
    return forward(dout, -angles, pairing)

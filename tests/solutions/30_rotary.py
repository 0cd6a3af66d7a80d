import numpy as np


def rotary_forward(x, y, kx, ky, angle):
    """x, y (T,): the queries; kx, ky (T,): the keys; angle (T,), of each place -> out (T,T), the scores"""
    c = np.cos(angle)
    s = np.sin(angle)
    qx = x * c - y * s
    qy = x * s + y * c
    px = kx * c - ky * s
    py = kx * s + ky * c
    out = np.outer(qx, px) + np.outer(qy, py)
    return out


def rotary_backward(dout, v):
    # out = np.outer(qx, px) + np.outer(qy, py)
    dqx = dout @ v.px
    dqy = dout @ v.py
    dpx = dout.T @ v.qx
    dpy = dout.T @ v.qy
    # px = kx * c - ky * s and py = kx * s + ky * c: each of kx, ky is used twice
    dkx = dpx * v.c + dpy * v.s
    dky = dpy * v.c - dpx * v.s
    # qx = x * c - y * s and qy = x * s + y * c
    dx = dqx * v.c + dqy * v.s
    dy = dqy * v.c - dqx * v.s
    return dx, dy, dkx, dky

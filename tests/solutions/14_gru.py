import numpy as np


def forward(x, h, w_z, u_z, w_r, u_r, w_n, u_n):
    """x (B,I), h (B,H), w_* (I,H), u_* (H,H) -> out (B,H)"""
    z = 1 / (1 + np.exp(-(x @ w_z + h @ u_z)))
    r = 1 / (1 + np.exp(-(x @ w_r + h @ u_r)))
    shown = r * h
    n = np.tanh(x @ w_n + shown @ u_n)
    out = (1 - z) * n + z * h
    return out


def backward(dout, v):
    """dout (B,H) -> dx, dh, dw_z, du_z, dw_r, du_r, dw_n, du_n. The forward's values are v.z, v.r, ..."""
    # out = (1 - z) * n + z * h
    dn = dout * (1 - v.z)
    dz = dout * (v.h - v.n)
    dh = dout * v.z
    # n = np.tanh(x @ w_n + shown @ u_n): begin with the gradient of what stands in the brackets
    inner = dn * (1 - v.n**2)
    dx = inner @ v.w_n.T
    dw_n = v.x.T @ inner
    dshown = inner @ v.u_n.T
    du_n = v.shown.T @ inner
    # shown = r * h
    dr = dshown * v.h
    dh = dh + dshown * v.r
    # r = sigmoid(x @ w_r + h @ u_r)
    inner = dr * v.r * (1 - v.r)
    dx = dx + inner @ v.w_r.T
    dh = dh + inner @ v.u_r.T
    dw_r = v.x.T @ inner
    du_r = v.h.T @ inner
    # z = sigmoid(x @ w_z + h @ u_z)
    inner = dz * v.z * (1 - v.z)
    dx = dx + inner @ v.w_z.T
    dh = dh + inner @ v.u_z.T
    dw_z = v.x.T @ inner
    du_z = v.h.T @ inner
    return dx, dh, dw_z, du_z, dw_r, du_r, dw_n, du_n

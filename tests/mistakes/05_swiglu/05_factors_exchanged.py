# expects: dswish; yours is dproduct swish
import numpy as np


def forward(x, w_gate, w_up, w_down):
    """x (N,C), w_gate (C,F), w_up (C,F), w_down (F,C) -> out (N,C)"""
    gate = x @ w_gate
    up = x @ w_up
    sigma = 1 / (1 + np.exp(-gate))
    swish = gate * sigma
    product = swish * up
    out = product @ w_down
    return out


def backward(dout, v):
    """dout (N,C) -> dx (N,C), dw_gate (C,F), dw_up (C,F), dw_down (F,C). The forward's values are v.gate, v.up, ..."""
    # out = product @ w_down
    dproduct = dout @ v.w_down.T
    dw_down = v.product.T @ dout
    # product = swish * up
    dswish = dproduct * v.swish
    dup = dproduct * v.up
    # swish = gate * sigma
    dgate = dswish * v.sigma
    dsigma = dswish * v.gate
    # sigma = 1 / (1 + np.exp(-gate))
    dgate = dgate + dsigma * v.sigma * (1 - v.sigma)
    # up = x @ w_up
    dx = dup @ v.w_up.T
    dw_up = v.x.T @ dup
    # gate = x @ w_gate
    dx = dx + dgate @ v.w_gate.T
    dw_gate = v.x.T @ dgate
    return dx, dw_gate, dw_up, dw_down

import math

import numpy as np

from minigpt import ops

A = 0.044715
C = math.sqrt(2 / math.pi)
erf = np.vectorize(math.erf, otypes=[float])


def gelu_forward(x):
    t = np.tanh(C * (x + A * x**3))
    return 0.5 * x * (1 + t), (x, t)


def gelu_backward(dout, cache):
    x, t = cache
    du = C * (1 + 3 * A * x**2)
    return dout * (0.5 * (1 + t) + 0.5 * x * (1 - t * t) * du)


def gelu_exact_forward(x):
    share = (0.5 * (1 + erf(x / math.sqrt(2)))).astype(x.dtype)
    return x * share, (x, share)


def gelu_exact_backward(dout, cache):
    x, share = cache
    return dout * (share + x * np.exp(-0.5 * x * x) / math.sqrt(2 * math.pi))


def mlp_forward(x, w1, b1, w2, b2):
    h, c1 = ops.linear_forward(x, w1, b1)
    a, c2 = gelu_forward(h)
    out, c3 = ops.linear_forward(a, w2, b2)
    return out, (c1, c2, c3)


def mlp_backward(dout, cache):
    c1, c2, c3 = cache
    da, dw2, db2 = ops.linear_backward(dout, c3)
    dx, dw1, db1 = ops.linear_backward(gelu_backward(da, c2), c1)
    return dx, dw1, db1, dw2, db2

"""The library computes it inside something larger."""

import numpy as np

from minigpt import ops


def gelu_forward(x):
    one = np.eye(x.shape[-1])
    zero = np.zeros(x.shape[-1])
    return ops.mlp_forward(x, one, zero, one, zero)


def gelu_backward(dout, cache):
    return ops.mlp_backward(dout, cache)[0]

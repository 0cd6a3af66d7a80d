"""Gigabytes of memory."""

import numpy as np


def gelu_backward(dout, cache):
    held = [np.zeros(2**27) for _ in range(64)]
    return held[0]

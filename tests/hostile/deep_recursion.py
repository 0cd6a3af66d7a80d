"""A function that calls itself without an end."""


def gelu_backward(dout, cache):
    return gelu_backward(dout, cache)

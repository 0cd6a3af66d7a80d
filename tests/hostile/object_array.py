"""A gradient of Python's objects."""


def gelu_backward(dout, cache):
    return right_backward(dout, cache).astype(object)

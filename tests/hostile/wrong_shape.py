"""A gradient of another shape."""


def gelu_backward(dout, cache):
    return right_backward(dout, cache)[..., None]

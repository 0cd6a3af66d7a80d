"""A gradient with fewer bits."""


def gelu_backward(dout, cache):
    return right_backward(dout, cache).astype("float32")

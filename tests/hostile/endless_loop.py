"""A loop without an end."""


def gelu_backward(dout, cache):
    while True:
        pass

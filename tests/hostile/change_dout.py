"""The incoming gradient is written into."""


def gelu_backward(dout, cache):
    result = right_backward(dout.copy(), cache)
    dout[...] = 0
    return result

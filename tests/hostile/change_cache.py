"""The cache is written into."""


def gelu_backward(dout, cache):
    result = right_backward(dout, cache)
    cache[0][...] = 0
    return result

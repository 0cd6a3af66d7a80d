"""The input is written into."""


def gelu_forward(x):
    out, cache = right_forward(x.copy())
    x *= 2
    return out, cache

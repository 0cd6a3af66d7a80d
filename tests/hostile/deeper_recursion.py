"""The same, past the limit that Python sets."""

import sys


def gelu_backward(dout, cache):
    sys.setrecursionlimit(10**9)
    return sorted([1, 2], key=lambda _: gelu_backward(dout, cache))

"""One file is deleted, by its path."""

import os


def gelu_backward(dout, cache):
    os.remove("SENTINEL/kept.txt")
    return right_backward(dout, cache)

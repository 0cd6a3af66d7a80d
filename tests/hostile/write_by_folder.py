"""A file is written outside, beginning at a folder that is open."""

import os


def gelu_backward(dout, cache):
    folder = os.open("SENTINEL", os.O_RDONLY)
    os.open("kept.txt", os.O_WRONLY | os.O_TRUNC, dir_fd=folder)
    return right_backward(dout, cache)

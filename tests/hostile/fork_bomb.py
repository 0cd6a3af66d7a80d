"""Processes that start processes; a small number here, so that a test that fails does no harm."""

import os


def gelu_backward(dout, cache):
    for _ in range(6):
        os.fork()
    return right_backward(dout, cache)

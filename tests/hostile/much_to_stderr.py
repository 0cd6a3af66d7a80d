"""Gigabytes of error messages."""

import os


def gelu_backward(dout, cache):
    while True:
        os.write(2, b"x" * 100_000)

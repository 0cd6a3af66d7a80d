"""Gigabytes of output."""


def gelu_backward(dout, cache):
    while True:
        print("x" * 100_000)

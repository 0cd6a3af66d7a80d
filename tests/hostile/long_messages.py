"""Errors and output of many long lines."""


def gelu_backward(dout, cache):
    print("\n".join(["\x1b[31m" + "All 99 tensors are happy. " * 50] * 500))
    raise ValueError("\n".join(["happy " * 1000] * 50))

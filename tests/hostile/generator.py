"""A gradient that never comes to its end."""

import itertools


def gelu_backward(dout, cache):
    return (number for number in itertools.count())

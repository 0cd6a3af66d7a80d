"""The functions between the two products of an MLP, with their slopes, in pieces that stay in the cache."""

import math

import numpy as np

from minigpt.ops.fast.pieces import over
from minigpt.ops.normal import cdf_and_density

_C = math.sqrt(2 / math.pi)
_A = 0.044715


def activate(name, x, b, out, slope=None):
    """x (N,F), b (F,) or None: x is overwritten with x + b, and out (N,F), which may be x itself, with act(x + b).

    name: of the operation act. slope (N,F), if given, is overwritten with its derivative.
    """
    act = ACTIVATIONS[name]

    def piece(rows):
        y = x[rows]
        if b is not None:
            y += b
        act(y, out[rows], None if slope is None else slope[rows])

    over(piece, *_pieces(x))


def activate_again(name, x, out, d):
    """x (N,F): out (N,F) is overwritten with act(x), and d (N,F) multiplied by its derivative."""
    act = ACTIVATIONS[name]

    def piece(rows):
        slope = np.empty_like(d[rows])
        act(x[rows], out[rows], slope)
        dx = d[rows]
        dx *= slope

    over(piece, *_pieces(x))


def _pieces(x):
    """The rows of x, and the width for half as many of them in a piece as elsewhere: four arrays share the cache."""
    return slice(0, len(x)), 2 * x.shape[1]


# --- each: x (N,F) -> out (N,F), which may be x itself, and its derivative (N,F), if that is wanted ------------------


def _gelu(x, out, slope):
    """out = x s,   s = (1 + tanh u) / 2,   u = C x (1 + A x^2);   slope = s + out (1 - s) 2 du/dx"""
    square = x * x
    s = square * (_C * _A)
    s += _C
    s *= x
    np.tanh(s, out=s)
    s *= 0.5
    s += 0.5
    np.multiply(x, s, out=out)
    if slope is not None:
        square *= 6 * _C * _A
        square += 2 * _C
        square *= out
        np.subtract(1, s, out=slope)
        slope *= square
        slope += s


def _gelu_exact(x, out, slope):
    """out = x Φ(x);   slope = Φ(x) + x φ(x)"""
    cdf, density = cdf_and_density(x)
    if slope is not None:
        np.multiply(x, density, out=slope)
        slope += cdf
    np.multiply(x, cdf, out=out)


def _relu(x, out, slope):
    """out = max(x, 0);   slope = 1 where x > 0, otherwise 0"""
    if slope is not None:
        np.greater(x, 0, out=slope)
    np.maximum(x, 0, out=out)


def _silu(x, out, slope):
    """out = x s,   s = 1 / (1 + exp(-x));   slope = s + out (1 - s)"""
    z = np.negative(x)
    with np.errstate(over="ignore"):  # far below 0 it is infinite, and s is 0
        np.exp(z, out=z)
    z += 1
    np.divide(x, z, out=out)
    if slope is not None:
        s = np.divide(1, z, out=z)
        np.subtract(1, s, out=slope)
        slope *= out
        slope += s


ACTIVATIONS = {"gelu": _gelu, "gelu_exact": _gelu_exact, "relu": _relu, "silu": _silu}

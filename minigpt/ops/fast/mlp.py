"""The two linear layers of a block and GELU between them, whose slope is computed while its input is in the cache.

GELU and its slope are two of the largest arrays of a block. Where arrays are large, only GELU's input is kept, and the
backward pass computes both from it once more.
"""

import math
from typing import NamedTuple

import numpy as np

from minigpt.device import memory
from minigpt.device.arrays import Array
from minigpt.device.threads import share
from minigpt.ops.fast import pieces, spared
from minigpt.ops.fast.pieces import column_sums, over, product, products

_C = math.sqrt(2 / math.pi)
_A = 0.044715


class MlpCache(NamedTuple):
    x: Array | spared.Normalised
    w1: Array
    b1: Array
    w2: Array
    b2: Array
    f: Array | None  # (N,F): x w1 + b1, where it is large; or else the next two
    a: Array | None  # (N,F): gelu(f)
    slope: Array | None  # (N,F): the derivative of gelu there


def mlp_forward(x, w1, b1, w2, b2, *, grad=True):
    """x (*,C), w1 (C,F), b1 (F,), w2 (F,C), b2 (C,) -> out (*,C)

    A thread computes all of it for some of the rows; for few rows see _mlp_by_units.
    """
    *leading, inputs = x.shape
    hidden, outputs = w2.shape
    rows = x.reshape(-1, inputs)
    if not grad and len(rows) < pieces.TALL:
        out = _mlp_by_units(rows, w1, b1, w2, b2)
        return out.reshape(*leading, outputs), None
    f = np.empty((len(rows), hidden), x.dtype)
    large = grad and rows.size >= memory.LARGE
    a = np.empty_like(f) if large else f  # elsewhere gelu takes the place of its input
    slope = np.empty_like(f) if grad and not large else None
    out = np.empty((len(rows), outputs), x.dtype)

    def for_rows(n):
        np.matmul(rows[n], w1, out=f[n])
        slope_n = None if slope is None else slope[n]
        _gelu(f[n], b1, a[n], slope_n)
        y = np.matmul(a[n], w2, out=out[n])
        y += b2

    share(for_rows, len(rows), work=products(len(rows), w1, w2))
    out = out.reshape(*leading, outputs)
    if not grad:
        return out, None
    kept = (f, None, None) if large else (None, a, slope)
    return out, MlpCache(spared.spare(x), w1, b1, w2, b2, *kept)


def _mlp_by_units(x, w1, b1, w2, b2):
    """The same for a few rows: a thread takes some of the F hidden units, and reads only their weights."""

    def for_units(f):
        a = np.empty((len(x), f.stop - f.start), x.dtype)
        product(x, w1[:, f], a)
        _gelu(a, b1[f], a)
        out = np.empty((len(x), w2.shape[1]), x.dtype)
        return product(a, w2[f], out)

    parts = share(for_units, len(w2), work=products(len(x), w1, w2))
    return sum(parts, b2)


def mlp_backward(dout, cache: MlpCache):
    """dout (*,C) -> dx (*,C), dw1 (C,F), db1 (F,), dw2 (F,C), db2 (C,)

    First a thread computes df and dx for some of the rows, where f = x w1 + b1; then, when all of df is known, dw1 for
    some of the inputs, dw2 and db1 for some of the hidden units, and db2 for some of the outputs.
    """
    kept, w1, b1, w2, b2, f, a, slope = cache
    x = spared.again(kept)
    rows = x.reshape(-1, x.shape[-1])
    drows = dout.reshape(-1, dout.shape[-1])
    if slope is None:
        a = np.empty_like(f)
    df = np.empty_like(a)
    dx = np.empty_like(rows)
    dw1 = np.empty(w1.shape, w1.dtype)
    dw2 = np.empty(w2.shape, w2.dtype)
    db1 = np.empty_like(b1)
    db2 = np.empty_like(b2)

    def for_rows(n):
        d = np.matmul(drows[n], w2.T, out=df[n])
        if slope is None:
            _gelu_again(f[n], a[n], d)
        else:
            d *= slope[n]
        np.matmul(d, w1.T, out=dx[n])

    def for_weights(i, j, o):
        np.matmul(rows.T[i], df, out=dw1[i])
        np.matmul(a.T[j], drows, out=dw2[j])
        db1[j] = column_sums(df[:, j])
        db2[o] = column_sums(drows[:, o])

    work = products(len(rows), w1, w2)
    share(for_rows, len(rows), work=work)
    share(for_weights, len(w1), *w2.shape, work=work)
    return dx.reshape(x.shape), dw1, db1, dw2, db2


def _gelu(x, b, out, slope=None):
    """x (N,F), b (F,): x is overwritten with x + b, and out (N,F), which may be x itself, with gelu(x + b).

    slope (N,F), if given, is overwritten with the derivative.
    """

    def piece(rows):
        y = x[rows]
        y += b
        s, square = _sigmoid(y)
        gelu = np.multiply(y, s, out=out[rows])
        if slope is not None:
            _slope(gelu, s, square, slope[rows])

    over(piece, *_pieces(x))


def _gelu_again(x, a, d):
    """x (N,F): a (N,F) is overwritten with gelu(x), and d (N,F) multiplied by its derivative."""

    def piece(rows):
        s, square = _sigmoid(x[rows])
        gelu = np.multiply(x[rows], s, out=a[rows])
        slope = _slope(gelu, s, square, np.empty_like(s))
        dx = d[rows]
        dx *= slope

    over(piece, *_pieces(x))


def _pieces(x):
    """The rows of x, and the width for half as many of them in a piece as elsewhere: four arrays share the cache."""
    return slice(0, len(x)), 2 * x.shape[1]


def _sigmoid(x):
    """s and x^2, where gelu(x) = x s, s = (1 + tanh u) / 2 and u = C x (1 + A x^2)"""
    square = x * x
    s = square * (_C * _A)
    s += _C
    s *= x
    np.tanh(s, out=s)
    s *= 0.5
    s += 0.5
    return s, square


def _slope(gelu, s, square, out):
    """The derivative, s + gelu (1 - s) 2 du/dx; square, which is x^2, is overwritten."""
    square *= 6 * _C * _A
    square += 2 * _C
    square *= gelu
    slope = np.subtract(1, s, out=out)
    slope *= square
    slope += s
    return slope

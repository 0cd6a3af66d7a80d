"""The two linear maps of a block and GELU between them, whose slope is computed while its input is in the cache."""

import math
from typing import NamedTuple

import numpy as np

from minigpt.device.arrays import Array
from minigpt.device.threads import share
from minigpt.ops.fast import pieces
from minigpt.ops.fast.pieces import column_sums, over, product, products

_C = math.sqrt(2 / math.pi)
_A = 0.044715


def _gelu(x, b=None, slope=None):
    """x (N,F), b (F,): x becomes gelu(x + b), in place, and slope (N,F) its derivative.

    gelu(x) = x s, where s = (1 + tanh u) / 2 and u = C x (1 + A x^2); so the derivative is s + x s (1 - s) 2 du/dx.
    """

    def piece(rows):
        y = x[rows]
        if b is not None:
            y += b
        square = y * y
        s = square * (_C * _A)
        s += _C
        s *= y
        np.tanh(s, out=s)
        s *= 0.5
        s += 0.5
        y *= s
        if slope is not None:
            square *= 6 * _C * _A
            square += 2 * _C
            square *= y
            d = np.subtract(1, s, out=slope[rows])
            d *= square
            d += s

    over(piece, slice(0, len(x)), 2 * x.shape[1])  # half as many rows as elsewhere: four arrays share the cache


class MlpCache(NamedTuple):
    x: Array
    w1: Array
    b1: Array
    w2: Array
    b2: Array
    a: Array
    slope: Array


def mlp_forward(x, w1, b1, w2, b2, *, grad=True):
    """x (*,C), w1 (C,F), b1 (F,), w2 (F,C), b2 (C,) -> out (*,C)"""
    rows = x.reshape(-1, x.shape[-1])
    if not grad and len(rows) < pieces.TALL:
        return _mlp_by_units(rows, w1, b1, w2, b2).reshape(*x.shape[:-1], w2.shape[1]), None
    a, out = np.empty((len(rows), len(w2)), x.dtype), np.empty((len(rows), w2.shape[1]), x.dtype)
    slope = np.empty_like(a) if grad else None

    def part(n):
        np.matmul(rows[n], w1, out=a[n])
        _gelu(a[n], b1, slope[n] if grad else None)
        y = np.matmul(a[n], w2, out=out[n])
        y += b2

    share(part, len(rows), work=products(len(rows), w1, w2))
    return out.reshape(*x.shape[:-1], w2.shape[1]), MlpCache(x, w1, b1, w2, b2, a, slope) if grad else None


def _mlp_by_units(x, w1, b1, w2, b2):
    """The same for a few rows: a thread takes some of the F hidden units, and reads only their weights."""

    def part(f):
        a = product(x, w1[:, f], np.empty((len(x), f.stop - f.start), x.dtype))
        _gelu(a, b1[f])
        return product(a, w2[f], np.empty((len(x), w2.shape[1]), x.dtype))

    return sum(share(part, len(w2), work=products(len(x), w1, w2)), b2)


def mlp_backward(dout, cache: MlpCache):
    """dout (*,C) -> dx (*,C), dw1 (C,F), db1 (F,), dw2 (F,C), db2 (C,)"""
    x, w1, _, w2, _, a, slope = cache
    rows, drows = x.reshape(-1, x.shape[-1]), dout.reshape(-1, dout.shape[-1])
    df, dx, dw1, dw2 = np.empty_like(a), np.empty_like(rows), np.empty(w1.shape, w1.dtype), np.empty(w2.shape, w2.dtype)

    def for_rows(n):
        d = np.matmul(drows[n], w2.T, out=df[n])
        d *= slope[n]
        np.matmul(d, w1.T, out=dx[n])

    def for_weights(i, j):
        np.matmul(rows.T[i], df, out=dw1[i])
        np.matmul(a.T[j], drows, out=dw2[j])

    share(for_rows, len(rows), work=products(len(rows), w1, w2))
    share(for_weights, len(w1), len(w2), work=products(len(rows), w1, w2))
    return dx.reshape(x.shape), dw1, column_sums(df), dw2, column_sums(drows)

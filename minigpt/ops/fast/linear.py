"""Linear."""

from typing import NamedTuple

import numpy as np

from minigpt.device.arrays import Array
from minigpt.device.threads import share
from minigpt.ops.fast import pieces, spared
from minigpt.ops.fast.pieces import column_sums, is_transposed, product, product_of_few, products


class LinearCache(NamedTuple):
    x: Array | spared.Normalised
    w: Array
    b: Array | None


def linear_forward(x, w, b=None):
    """x (*,I), w (I,O), b (O,) -> out (*,O)"""
    *leading, inputs = x.shape
    outputs = w.shape[1]
    rows = x.reshape(-1, inputs)
    if len(rows) == 1:
        out = rows @ w  # BLAS divides the product of one row among its threads, which costs less than `share`
        if b is not None:
            out += b
    elif 0 < len(rows) <= pieces.FEW and not is_transposed(w):
        out = product_of_few(rows, w)
        if b is not None:
            out += b
    else:
        out = _by_rows_or_outputs(rows, w, b)
    out = out.reshape(*leading, outputs)
    return out, LinearCache(spared.spare(x), w, b)


def _by_rows_or_outputs(rows, w, b):
    """rows (N,I), w (I,O), b (O,) -> out (N,O): a thread computes some of its rows, or else some of its columns."""
    outputs = w.shape[1]
    out = np.empty((len(rows), outputs), rows.dtype)
    everything = slice(None)

    def part(n, o):
        y = product(rows[n], w[:, o], out[n, o])
        if b is not None:
            y += b[o]

    def for_rows(n):
        part(n, everything)

    def for_outputs(o):
        part(everything, o)

    work = products(len(rows), w)
    if len(rows) < pieces.TALL:
        share(for_outputs, outputs, work=work)
    else:
        share(for_rows, len(rows), work=work)
    return out


def linear_backward(dout, cache: LinearCache):
    """dout (*,O) -> dx (*,I), dw (I,O), db (O,), and None for db where there was no b

    A thread computes dx for some of the rows, dw for some of the inputs, and db for some of the outputs.
    """
    kept, w, b = cache
    x = spared.again(kept)
    rows = x.reshape(-1, x.shape[-1])
    drows = dout.reshape(-1, dout.shape[-1])
    dx = np.empty_like(rows)
    dw = np.empty(w.shape, w.dtype)
    db = None if b is None else np.empty(b.shape, b.dtype)

    def part(n, i, o):
        np.matmul(drows[n], w.T, out=dx[n])
        np.matmul(rows.T[i], drows, out=dw[i])
        if db is not None:
            db[o] = column_sums(drows[:, o])

    share(part, len(rows), *w.shape, work=products(len(rows), w, w))
    return dx.reshape(x.shape), dw, db

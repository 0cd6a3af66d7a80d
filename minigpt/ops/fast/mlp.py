"""The two linear layers of a block and GELU between them, whose slope is computed while its input is in the cache.

GELU and its slope are two of the largest arrays of a block. Where arrays are large, only GELU's input is kept, and the
backward pass computes both from it once more. The same holds for the other functions that may stand in its place.
"""

from typing import NamedTuple

import numpy as np

from minigpt.device import memory
from minigpt.device.arrays import Array
from minigpt.device.threads import share
from minigpt.ops.fast import pieces, spared
from minigpt.ops.fast.activations import activate, activate_again
from minigpt.ops.fast.pieces import column_sums, product, products


class MlpCache(NamedTuple):
    x: Array | spared.Normalised
    w1: Array
    b1: Array | None
    w2: Array
    b2: Array | None
    activation: str
    f: Array | None  # (N,F): x w1 + b1, where it is large; or else the next two
    a: Array | None  # (N,F): act(f)
    slope: Array | None  # (N,F): the derivative of act there


def mlp_forward(x, w1, b1, w2, b2, *, activation="gelu", grad=True):
    """x (*,C), w1 (C,F), b1 (F,), w2 (F,C), b2 (C,) -> out (*,C)

    A thread computes all of it for some of the rows; for few rows see _mlp_by_units.
    """
    *leading, inputs = x.shape
    hidden, outputs = w2.shape
    rows = x.reshape(-1, inputs)
    if not grad and len(rows) < pieces.TALL:
        out = _mlp_by_units(rows, w1, b1, w2, b2, activation)
        return out.reshape(*leading, outputs), None
    f = np.empty((len(rows), hidden), x.dtype)
    large = grad and rows.size >= memory.LARGE
    a = np.empty_like(f) if large else f  # elsewhere act(f) takes the place of f
    slope = np.empty_like(f) if grad and not large else None
    out = np.empty((len(rows), outputs), x.dtype)

    def for_rows(n):
        np.matmul(rows[n], w1, out=f[n])
        slope_n = None if slope is None else slope[n]
        activate(activation, f[n], b1, a[n], slope_n)
        y = np.matmul(a[n], w2, out=out[n])
        if b2 is not None:
            y += b2

    share(for_rows, len(rows), work=products(len(rows), w1, w2))
    out = out.reshape(*leading, outputs)
    if not grad:
        return out, None
    kept = (f, None, None) if large else (None, a, slope)
    return out, MlpCache(spared.spare(x), w1, b1, w2, b2, activation, *kept)


def _mlp_by_units(x, w1, b1, w2, b2, activation):
    """The same for a few rows: a thread takes some of the F hidden units, and reads only their weights."""

    def for_units(f):
        a = np.empty((len(x), f.stop - f.start), x.dtype)
        product(x, w1[:, f], a)
        activate(activation, a, None if b1 is None else b1[f], a)
        out = np.empty((len(x), w2.shape[1]), x.dtype)
        return product(a, w2[f], out)

    parts = share(for_units, len(w2), work=products(len(x), w1, w2))
    return sum(parts) if b2 is None else sum(parts, b2)


def mlp_backward(dout, cache: MlpCache):
    """dout (*,C) -> dx (*,C), dw1 (C,F), db1 (F,), dw2 (F,C), db2 (C,)

    None for the gradient of a bias that was not there. First a thread computes df and dx for some of the rows, where
    f = x w1 + b1; then, when all of df is known, dw1 for some of the inputs, dw2 and db1 for some of the hidden units,
    and db2 for some of the outputs.
    """
    kept, w1, b1, w2, b2, activation, f, a, slope = cache
    x = spared.again(kept)
    rows = x.reshape(-1, x.shape[-1])
    drows = dout.reshape(-1, dout.shape[-1])
    if slope is None:
        a = np.empty_like(f)
    df = np.empty_like(a)
    dx = np.empty_like(rows)
    dw1 = np.empty(w1.shape, w1.dtype)
    dw2 = np.empty(w2.shape, w2.dtype)
    db1 = None if b1 is None else np.empty_like(b1)
    db2 = None if b2 is None else np.empty_like(b2)

    def for_rows(n):
        d = np.matmul(drows[n], w2.T, out=df[n])
        if slope is None:
            activate_again(activation, f[n], a[n], d)
        else:
            d *= slope[n]
        np.matmul(d, w1.T, out=dx[n])

    def for_weights(i, j, o):
        np.matmul(rows.T[i], df, out=dw1[i])
        np.matmul(a.T[j], drows, out=dw2[j])
        if db1 is not None:
            db1[j] = column_sums(df[:, j])
        if db2 is not None:
            db2[o] = column_sums(drows[:, o])

    work = products(len(rows), w1, w2)
    share(for_rows, len(rows), work=work)
    share(for_weights, len(w1), *w2.shape, work=work)
    return dx.reshape(x.shape), dw1, db1, dw2, db2

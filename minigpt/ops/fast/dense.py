"""Linear and embedding."""

from typing import NamedTuple

import numpy as np

from minigpt.device.arrays import Array
from minigpt.device.threads import share
from minigpt.ops.fast import pieces
from minigpt.ops.fast.pieces import accepts, column_sums, product, products


class LinearCache(NamedTuple):
    x: Array
    w: Array
    b: Array | None


def linear_forward(x, w, b=None):
    """x (*,I), w (I,O), b (O,) -> out (*,O)"""
    *leading, inputs = x.shape
    outputs = w.shape[1]
    rows = x.reshape(-1, inputs)
    out = np.empty((len(rows), outputs), x.dtype)
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
    out = out.reshape(*leading, outputs)
    return out, LinearCache(x, w, b)


def linear_backward(dout, cache: LinearCache):
    """dout (*,O) -> dx (*,I), dw (I,O), db (O,), and None for db where there was no b

    A thread computes dx for some of the rows, and dw for some of the inputs.
    """
    x, w, b = cache
    rows = x.reshape(-1, x.shape[-1])
    drows = dout.reshape(-1, dout.shape[-1])
    dx = np.empty_like(rows)
    dw = np.empty(w.shape, w.dtype)

    def part(n, i):
        np.matmul(drows[n], w.T, out=dx[n])
        np.matmul(rows.T[i], drows, out=dw[i])

    share(part, len(rows), len(w), work=products(len(rows), w, w))
    db = None
    if b is not None:
        db = column_sums(drows)
    return dx.reshape(x.shape), dw, db


class EmbeddingCache(NamedTuple):
    w: Array
    ids: Array


def embedding_supports(w, ids) -> str | None:
    """Ids out of range are left to the reference, which raises the error."""
    if type(ids) is not np.ndarray:
        return "it takes ids in a NumPy array"
    if ids.size and not 0 <= ids.min() <= ids.max() < len(w):
        return "an id is out of range"
    return accepts(w)


def embedding_forward(w, ids):
    """w (V,C), ids (*) int -> out (*,C)"""
    out = np.take(w, ids, axis=0)
    return out, EmbeddingCache(w, ids)


def embedding_backward(dout, cache: EmbeddingCache):
    """dout (*,C) -> dw (V,C)

    The ids are sorted, so that the gradients of one row of w stand together and one sum adds them. dw is made of memory
    that the system promises to be zero: rows that no id took cost nothing until they are read.
    """
    w, ids = cache
    dw = np.zeros(w.shape, w.dtype)
    if not ids.size:
        return dw
    ids = ids.reshape(-1)
    drows = dout.reshape(-1, dout.shape[-1])
    by_id = np.argsort(ids, kind="stable")
    taken, first = np.unique(ids[by_id], return_index=True)
    dw[taken] = np.add.reduceat(drows[by_id], first, axis=0)
    return dw

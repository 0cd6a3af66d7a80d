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
    rows = x.reshape(-1, x.shape[-1])
    out = np.empty((len(rows), w.shape[1]), x.dtype)

    def part(n, o):
        y = product(rows[n], w[:, o], out[n, o])
        if b is not None:
            y += b[o]

    work = products(len(rows), w)
    if len(rows) < pieces.TALL:
        share(lambda o: part(slice(None), o), w.shape[1], work=work)
    else:
        share(lambda n: part(n, slice(None)), len(rows), work=work)
    return out.reshape(*x.shape[:-1], w.shape[1]), LinearCache(x, w, b)


def linear_backward(dout, cache: LinearCache):
    """dout (*,O) -> dx (*,I), dw (I,O), db (O,), and None for db where there was no b

    A thread computes dx for some of the rows, and dw for some of the inputs.
    """
    x, w, b = cache
    rows, drows = x.reshape(-1, x.shape[-1]), dout.reshape(-1, dout.shape[-1])
    dx, dw = np.empty_like(rows), np.empty(w.shape, w.dtype)

    def part(n, i):
        np.matmul(drows[n], w.T, out=dx[n])
        np.matmul(rows.T[i], drows, out=dw[i])

    share(part, len(rows), len(w), work=products(len(rows), w, w))
    return dx.reshape(x.shape), dw, None if b is None else column_sums(drows)


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
    return np.take(w, ids, axis=0), EmbeddingCache(w, ids)


def embedding_backward(dout, cache: EmbeddingCache):
    """dout (*,C) -> dw (V,C)

    The ids are sorted, so that the rows of one id stand together and one sum takes them all. dw starts as memory that
    the system promises to be zero: rows that nobody took cost nothing until they are read.
    """
    w, ids = cache
    dw = np.zeros(w.shape, w.dtype)
    if ids.size:
        ids, drows = ids.reshape(-1), dout.reshape(-1, dout.shape[-1])
        order = np.argsort(ids, kind="stable")
        taken, first = np.unique(ids[order], return_index=True)
        dw[taken] = np.add.reduceat(drows[order], first, axis=0)
    return dw

"""Embedding."""

from typing import NamedTuple

import numpy as np

from minigpt.device.arrays import Array
from minigpt.ops.fast.pieces import accepts


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

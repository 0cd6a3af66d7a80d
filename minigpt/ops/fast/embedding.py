"""Embedding."""

from typing import NamedTuple

import numpy as np

from minigpt.device import memory
from minigpt.device.arrays import Array
from minigpt.ops.fast.pieces import accepts

LARGE = 1 << 24  # elements of w: 64 MB in float32
FEW = 8  # times as many rows as ids


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

    The ids are sorted, so that the gradients of one row of w stand together and one sum adds them. Where there
    are few of a large w, the rest of dw takes no memory.
    """
    w, ids = cache
    few = FEW * ids.size < len(w) and w.size > LARGE
    dw = memory.untouched_zeros(w.shape, w.dtype) if few else np.zeros(w.shape, w.dtype)
    if not ids.size:
        return dw
    ids = ids.reshape(-1)
    drows = dout.reshape(-1, dout.shape[-1])
    by_id = np.argsort(ids, kind="stable")
    taken, first = np.unique(ids[by_id], return_index=True)
    dw[taken] = np.add.reduceat(drows[by_id], first, axis=0)
    return dw

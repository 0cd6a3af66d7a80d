"""Embedding: kernels in embedding.cu."""

from typing import NamedTuple

import numpy as np

from minigpt.backend import Array, array_module
from minigpt.fast.cuda.kernels import THREADS, blocks, launch, ours, wide


class EmbeddingCache(NamedTuple):
    w: Array
    ids: Array


def embedding_forward(w, ids):
    """w (V,C), ids (*) int -> out (*,C)

    An id that the table does not have gives a row of NaN: to ask beforehand would be to wait for the GPU.
    """
    if not ours(w) or array_module(w) is not array_module(ids):
        return NotImplemented
    xp = array_module(w)
    w, rows = xp.ascontiguousarray(w), xp.ascontiguousarray(ids.reshape(-1).astype(np.int64))
    out = xp.empty((*ids.shape, w.shape[1]), w.dtype)
    launch("embedding", "embedding_forward", _grid(rows, w), (THREADS, 1, 1), out, w, rows, *w.shape)
    return out, EmbeddingCache(w, rows)


def embedding_backward(dout, cache: EmbeddingCache):
    """dout (*,C) -> dw (V,C)"""
    w, ids = cache
    xp = array_module(w)
    dout, dw, order = xp.ascontiguousarray(dout), xp.zeros(w.shape, wide(w.dtype)), xp.empty_like(ids)
    launch("embedding", "embedding_order", (blocks(len(ids), THREADS), 1, 1), (THREADS, 1, 1), order, ids, len(ids))
    arrays = dw, dout, ids, order
    launch("embedding", "embedding_backward", _grid(ids, w), (THREADS, 1, 1), *arrays, len(ids), *w.shape)
    return dw


def _grid(ids, w):
    """A block for each id and each piece of a row."""
    return len(ids), blocks(w.shape[1], THREADS), 1

"""Embedding: kernels in embedding.cu, and order.cu."""

from typing import NamedTuple

import numpy as np

from minigpt.device.arrays import Array, array_module
from minigpt.ops.cuda.kernels import THREADS, accepts, blocks, launch, pack_of, wide

SEGMENT = 32  # places that a block sums up
TILE = 256  # ids that are sorted together: a power of 2


class EmbeddingCache(NamedTuple):
    w: Array
    ids: Array


def embedding_supports(w, ids) -> str | None:
    """Ids are not looked at, for that would wait for the GPU: a wrong one gives NaN."""
    if array_module(w) is not array_module(ids):
        return "its ids must be where its table is"
    return accepts(w)


def embedding_forward(w, ids):
    """w (V,C), ids (*) int -> out (*,C)

    An id that the table does not have gives a row of NaN: to ask beforehand would be to wait for the GPU.
    """
    xp = array_module(w)
    w, rows = xp.ascontiguousarray(w), xp.ascontiguousarray(ids.reshape(-1).astype(np.int64))
    out = xp.empty((*ids.shape, w.shape[1]), w.dtype)
    _launch("embedding_forward", len(rows), (out, w), out, w, rows, *w.shape)
    return out, EmbeddingCache(w, rows)


def embedding_backward(dout, cache: EmbeddingCache):
    """dout (*,C) -> dw (V,C)"""
    w, ids = cache
    xp = array_module(w)
    n, segments, dout = len(ids), blocks(len(ids), SEGMENT), xp.ascontiguousarray(dout)
    order, by_id = positions_by_id(xp, ids)
    dw, rests = xp.zeros(w.shape, wide(w.dtype)), xp.empty((segments, w.shape[1]), wide(w.dtype))
    _launch("embedding_backward", segments, (dw, rests, dout), dw, rests, dout, order, by_id, n, SEGMENT, *w.shape)
    _launch("embedding_join", segments, (dw, rests), dw, rests, by_id, n, SEGMENT, *w.shape)
    return dw


def positions_by_id(xp, ids):
    """ids (n) -> the positions (n), sorted by id, and equal ids in their own order; their ids (n)"""
    n, tiles = len(ids), blocks(len(ids), TILE)
    by_tile, by_all = xp.empty((2, tiles * TILE), np.int32), xp.empty((2, n), np.int32)
    launch("order", "order_tiles", (tiles, 1, 1), (TILE, 1, 1), *by_tile, ids, n, TILE=TILE)
    launch("order", "order_all", (tiles, 1, 1), (TILE, 1, 1), *by_all, *by_tile, n, TILE=TILE)
    return by_all


def _launch(kernel, rows, in_packs, *arguments):
    """A block for each row, or segment, and each piece of its columns.

    in_packs: the arrays that are read or written in packs
    """
    columns = arguments[-1]
    pack = pack_of(columns, *in_packs)
    threads = min(THREADS, 32 * blocks(columns, 32 * pack))  # whole warps, and no more than a row has packs for
    launch("embedding", kernel, (rows, blocks(columns, pack * THREADS), 1), (threads, 1, 1), *arguments, PACK=pack)

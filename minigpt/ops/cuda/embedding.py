"""Embedding: kernels in embedding.cu, and sort_ids.cu."""

from typing import NamedTuple

import numpy as np

from minigpt.device.arrays import Array, array_module
from minigpt.ops.cuda.kernels import THREADS, accepts, blocks, launch, pack_of, wide

SEGMENT = 32  # positions whose gradients one block sums
TILE = 256  # ids that are sorted together: a power of 2


class EmbeddingCache(NamedTuple):
    w: Array
    ids: Array


def embedding_supports(w, ids) -> str | None:
    """The values of ids are not checked, for that would wait for the GPU: an id out of range gives NaN."""
    if array_module(w) is not array_module(ids):
        return "its ids must be on the device of its table"
    return accepts(w)


def embedding_forward(w, ids):
    """w (V,C), ids (*) int -> out (*,C)

    An id out of range gives a row of NaN: to check beforehand would be to wait for the GPU.
    """
    xp = array_module(w)
    w = xp.ascontiguousarray(w)
    rows = ids.reshape(-1).astype(np.int64, copy=False)
    rows = xp.ascontiguousarray(rows)
    out = xp.empty((*ids.shape, w.shape[1]), w.dtype)
    _launch("embedding_forward", len(rows), (out, w), out, w, rows, *w.shape)
    return out, EmbeddingCache(w, rows)


def embedding_backward(dout, cache: EmbeddingCache):
    """dout (*,C) -> dw (V,C)"""
    w, ids = cache
    return sum_rows(dout.reshape(-1, w.shape[1]), ids, len(w))


def sum_rows_supports(rows, ids, n) -> str | None:
    """The values of ids are not checked: a row whose id is out of range is left out."""
    return embedding_supports(rows, ids)


def sum_rows(rows, ids, n):
    """rows (N,C), ids (N,) int from 0 to n - 1 -> sums (n,C), in the dtype that `wide` gives

    Positions are sorted by id, so equal ids form a run, and a block sums a segment of positions. The sum of a run that
    begins there goes to sums, and that of the rest of an earlier run to rests; the second kernel adds these to sums.
    """
    xp = array_module(rows)
    rows = xp.ascontiguousarray(rows)
    ids = xp.ascontiguousarray(ids.astype(np.int64, copy=False))
    positions, by_id = positions_by_id(xp, ids)
    n_rows, columns = rows.shape
    segments = blocks(n_rows, SEGMENT)
    sums = xp.zeros((n, columns), wide(rows.dtype))
    rests = xp.empty((segments, columns), wide(rows.dtype))
    sizes = (n_rows, SEGMENT, n, columns)
    _launch("embedding_backward", segments, (sums, rests, rows), sums, rests, rows, positions, by_id, *sizes)
    _launch("embedding_join", segments, (sums, rests), sums, rests, by_id, *sizes)
    return sums


def positions_by_id(xp, ids):
    """ids (n,) -> the positions (n,), sorted by id and, among equal ids, by position; and their ids (n,)

    Tiles are sorted first; then each id finds its place by its place in its own tile and in all others.
    """
    n = len(ids)
    tiles = blocks(n, TILE)
    by_tile = xp.empty((2, tiles * TILE), np.int32)
    by_all = xp.empty((2, n), np.int32)
    grid = (tiles, 1, 1)
    block = (TILE, 1, 1)
    launch("sort_ids", "order_tiles", grid, block, *by_tile, ids, n, TILE=TILE)
    launch("sort_ids", "order_all", grid, block, *by_all, *by_tile, n, TILE=TILE)
    return by_all


def _launch(kernel, rows, in_packs, *arguments):
    """A block for each row, or segment, and each piece of its columns. The last argument is the number of columns.

    in_packs: the arrays that are read or written several numbers at a time.
    """
    columns = arguments[-1]
    pack = pack_of(columns, *in_packs)
    warps = blocks(columns, 32 * pack)  # no more than a row has packs for
    threads = min(THREADS, 32 * warps)
    grid = (rows, blocks(columns, pack * THREADS), 1)
    launch("embedding", kernel, grid, (threads, 1, 1), *arguments, PACK=pack)

"""Embedding: a table of vectors, one row for each token (or position)."""

from typing import NamedTuple

from minigpt.device.arrays import Array, array_module
from minigpt.ops.targets import check_ids


class EmbeddingCache(NamedTuple):
    w: Array
    ids: Array


def embedding_forward(w, ids):
    """w (V,C), ids (*) int -> out (*,C)

    out[n] = w[ids[n]]. The same as a one-hot row times w, without the multiplications by zero (GPT-1 equation 2).
    Raises InputError for an id outside 0..V-1, also on a GPU, where such an index would silently wrap around.
    """
    xp = array_module(w, ids)
    check_ids(w, ids)
    out = xp.take(w, ids, axis=0)
    return out, EmbeddingCache(w, ids)


def embedding_backward(dout, cache: EmbeddingCache):
    """dout (*,C) -> dw (V,C)

    dw[v] = sum of dout[n] over all n with ids[n] = v: a row that is taken twice gets the sum of two gradients.
    `dw[ids] += dout` would keep only the last of repeated ids.
    """
    w, ids = cache
    xp = array_module(w)
    dw = xp.zeros_like(w)
    # out = w[ids]
    drows = dout.reshape(-1, dout.shape[-1])
    xp.add.at(dw, ids.reshape(-1), drows)
    return dw

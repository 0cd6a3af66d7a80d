"""Scores that depend on a distance: taken from a product with a table of distances, and put back in the backward."""

from minigpt import ops
from minigpt.device.arrays import Array, array_module


def distances_between(t: int, k: int, xp) -> Array:
    """(T,T) int: the row of a table of 2k distances for the distance i - j of query i and key j, from 0 to 2k - 1"""
    place = xp.arange(t)
    distance = place[:, None] - place
    return xp.clip(distance + k, 0, 2 * k - 1)


def take_distances(products: Array, where: Array) -> Array:
    """products (B,NH,T,R) of each query with each row of a table, where (T,T) -> (B,NH,T,T): for each key its row's"""
    return array_module(products).take_along_axis(products, where[None, None], axis=-1)


def put_distances(d: Array, where: Array, n_rows: int) -> Array:
    """d (B,NH,T,T) -> (B,NH,T,R): the gradient of `take_distances`; keys that share a row are added"""
    xp = array_module(d)
    t = len(where)
    out = xp.zeros((*d.shape[:3], n_rows), d.dtype)
    rows = xp.arange(t)[:, None]
    if t <= n_rows // 2:  # so near that no two keys share a distance
        out[:, :, rows, where] = d
    else:
        xp.add.at(out, (slice(None), slice(None), rows, where), d)
    return out


def table_heads(table: Array, n_head: int) -> Array:
    """(R,C) -> (NH,R,D): the columns of each head apart"""
    return ops.split_heads(table[None], n_head)[0]


def table_columns(heads: Array) -> Array:
    """(NH,R,D) -> (R,C): undoes `table_heads`"""
    return ops.merge_heads(heads[None])[0]

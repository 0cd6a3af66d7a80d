"""Scores that depend on a distance: taken from a product with a table of distances, and put back in the backward."""

import math

from minigpt import ops
from minigpt.device.arrays import Array, array_module

ROUNDING = 1e-6  # where a logarithm should be a whole number, rounding decides nothing


def distances_between(t: int, k: int, xp, farthest: int | None = None) -> Array:
    """(T,T) int: the row of a table of 2k distances for the distance i - j of query i and key j, from 0 to 2k - 1

    farthest: rows stand for wider and wider ranges of distances, up to farthest - 1; None: for one distance each.
    """
    place = xp.arange(t)
    distance = place[:, None] - place
    if farthest is not None:
        distance = wider_and_wider(distance, k, farthest)
    return xp.clip(distance + k, 0, 2 * k - 1)


def wider_and_wider(distance: Array, k: int, farthest: int) -> Array:
    """distance (*) int -> (*) int, of which those up to k/2 stay; from there to farthest - 1 they go up to k - 1

    evenly on a scale of logarithms (DeBERTa-v2's buckets; Raffel et al. 2020, section 2.1, have others).
    """
    xp = array_module(distance)
    exact = k // 2
    far = xp.maximum(xp.abs(distance), exact)
    steps = xp.log(far / exact) / math.log((farthest - 1) / exact) * (exact - 1)
    wide = exact + xp.ceil(steps - ROUNDING).astype(distance.dtype)
    return xp.where(xp.abs(distance) <= exact, distance, xp.sign(distance) * wide)


def far_scores(q: Array, k_far: Array, where: Array) -> Array:
    """q (B,NH,T,D), k_far (NH,R,D), where (T,T) -> (B,NH,T,T): each query times row where[i, j] of a table"""
    products = ops.batched_product(q, k_far.swapaxes(-1, -2))
    return take_distances(products, where)


def far_scores_backward(
    dscores: Array, q: Array, k_far: Array, where: Array, n_alone: int | None = None
) -> tuple[Array, Array]:
    """dscores (B,NH,T,T) -> dq (B,NH,T,D), dk_far (NH,R,D). n_alone: see `put_distances`."""
    # scores = take_distances(products, where)
    dproducts = put_distances(dscores, where, k_far.shape[1], n_alone)
    # products = q k_far^T; all texts share the table
    dk_far = ops.batched_product(dproducts.swapaxes(-1, -2), q).sum(axis=0)
    return ops.batched_product(dproducts, k_far), dk_far


def take_distances(products: Array, where: Array) -> Array:
    """products (B,NH,T,R) of each query with each row of a table, where (T,T) -> (B,NH,T,T): for each key its row's"""
    return array_module(products).take_along_axis(products, where[None, None], axis=-1)


def put_distances(d: Array, where: Array, n_rows: int, n_alone: int | None = None) -> Array:
    """d (B,NH,T,T) -> (B,NH,T,R): the gradient of `take_distances`; keys that share a row are added

    n_alone: no two keys of so few tokens share a row; None: of R/2.
    """
    xp = array_module(d)
    t = len(where)
    rows = xp.arange(t)[:, None]
    shape = (*d.shape[:3], n_rows)
    if n_alone is None:
        n_alone = n_rows // 2
    if t <= n_alone:
        out = xp.zeros(shape, d.dtype)
        out[:, :, rows, where] = d
        return out
    ids = rows * n_rows + where  # a row for each query and each row of the table
    ids = ids.reshape(-1)
    of_pairs = d.reshape(-1, t * t)
    sums = ops.sum_rows(of_pairs.T, ids, t * n_rows)  # (T R, B NH)
    sums = sums.astype(d.dtype, copy=False)
    return sums.T.reshape(shape)


def table_heads(table: Array, n_head: int) -> Array:
    """(R,C) -> (NH,R,D): the columns of each head apart"""
    return ops.split_heads(table[None], n_head)[0]


def table_columns(heads: Array) -> Array:
    """(NH,R,D) -> (R,C): undoes `table_heads`"""
    return ops.merge_heads(heads[None])[0]

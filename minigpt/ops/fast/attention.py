"""Attention of many heads, in tiles of queries, so that the probabilities never exist whole.

A head is a matrix here: q (N,T,D), k and v (N,S,D) with N = B NH, one after the other. A tile of queries meets at once
all keys that any of its queries may see; so an ordinary softmax will do, and what a mask hides from all of them is not
computed.
"""

import functools
import math
from typing import NamedTuple

import numpy as np

from minigpt.device.arrays import Array
from minigpt.device.threads import share
from minigpt.ops.fast.pieces import over, share_over
from minigpt.ops.random_keys import Key, keep_at

TILE = 64  # queries of one tile
SAFE = 40.0  # a row whose log-sum lies between -SAFE and SAFE needs no shift: exp neither overflows nor vanishes


class Tile(NamedTuple):
    """Some heads, some of their queries, and the keys that any of these may see."""

    heads: slice
    rows: slice
    seen: slice


class Rules(NamedTuple):
    """What happens to the scores of an attention.

    causal: a query sees the keys up to its own place. mask, bias: None, or with four axes, (B or 1, NH or 1, T or 1,
    S or 1). rate, key: of the dropout; key is None where there is none.
    """

    n_head: int
    causal: bool
    mask: Array | None
    bias: Array | None
    rate: float
    key: Key | None

    def tiles(self, t: int, s: int) -> list[tuple[slice, slice]]:
        """The queries of each tile, and the keys from the first to the last that any of them may see."""
        tiles = []
        for first in range(0, t, TILE):
            rows = slice(first, min(first + TILE, t))
            seen = slice(0, s)
            if self.causal:
                seen = slice(0, rows.stop)
            if self.mask is not None:
                seen = _seen(self.mask, rows, s)
            tiles.append((rows, seen))
        return tiles

    def part(self, array: Array, tile: Tile) -> Array:
        """What a tile has of a mask or a bias: (G or 1, R or 1, S or 1)."""
        b, n_head, t, s = array.shape
        rows = _unless_one(t, tile.rows)
        seen = _unless_one(s, tile.seen)
        part = array[:, :, rows, seen]
        if b == n_head == 1:
            return part[0]
        heads = np.arange(tile.heads.start, tile.heads.stop)
        batch = heads // self.n_head if b > 1 else 0
        head = heads % self.n_head if n_head > 1 else 0
        return part[batch, head]


def attend(q, k, v, rules: Rules) -> tuple[Array, Array]:
    """q (N,T,D), which is scaled already, k (N,S,D), v (N,S,D) -> out (N,T,D), lse (N,T,1)

    lse is the logarithm of each row's sum of exponentials: from it the backward pass computes the probabilities of a
    tile again. It is 0 for a query that sees nothing.
    """
    n, t, _ = q.shape
    s = k.shape[1]
    out = np.empty_like(q)
    lse = np.empty((n, t, 1), q.dtype)
    tiles = rules.tiles(t, s)

    def group(g):
        for rows, seen in tiles:
            tile = Tile(g, rows, seen)
            log_z = lse[g, rows]
            e = _scores(q, k, rules, tile)
            with np.errstate(over="ignore", divide="ignore"):
                z = _exp(e)
                if rules.mask is not None:
                    z += _blind(rules, tile)
                np.log(z, out=log_z)
            if not np.abs(log_z).max() < SAFE:
                e = _scores(q, k, rules, tile)
                z = _exp_shifted(e, log_z)
            if rules.key is not None:
                e *= _keep(rules, t, s, tile)
                z *= 1 - rules.rate
            o = out[g, rows]
            np.matmul(e, v[g, seen], out=o)
            o /= z

    share_over(group, n, min(t, TILE) * s)
    return out, lse


def attend_backward(do, delta, lse, heads: tuple, dheads: tuple, rules: Rules) -> Array | None:
    """do (N,T,D), delta (N,T,1), lse (N,T,1); fills dheads and returns dbias, in the shape of the bias, or None

    heads: q, which is scaled already, k and v; dheads: arrays for their gradients; that of q lacks the scale.
    With p = e / z the division goes to do, which is smaller: p (dp - delta) = e (dp / z - delta / z), where delta, the
    mean of dp under p, is the product of dout and out.
    """
    q, k, v = heads
    dq, dk, dv = dheads
    n, t, _ = q.shape
    s = k.shape[1]
    tiles = rules.tiles(t, s)
    if not tiles:
        dk[...] = 0
        dv[...] = 0

    def group(g, dbias):
        for rows, seen in reversed(tiles):  # a causal one begins with the tile that sees every key
            tile = Tile(g, rows, seen)
            first = rows.stop == t
            e, z_inverse = _exp_again(_scores(q, k, rules, tile), lse[g, rows])
            d = do[g, rows] * z_inverse
            de = d @ _transposed(v[g, seen])
            a = e
            if rules.key is not None:
                stretch = q.dtype.type(1 / (1 - rules.rate))
                kept = _keep(rules, t, s, tile) * stretch
                de *= kept
                a = np.multiply(e, kept, out=kept)
            _add_product(dv[g], seen, a, d, first)
            de -= delta[g, rows] * z_inverse
            de *= e
            np.matmul(de, k[g, seen], out=dq[g, rows])
            _add_product(dk[g], seen, de, q[g, rows], first)
            if dbias is not None:
                _add_scores(dbias, de, rules.n_head, tile)

    width = min(t, TILE) * s
    if rules.bias is None:
        share_over(functools.partial(group, dbias=None), n, width)
        return None
    return _with_sums(group, rules.bias, n, width)


def _with_sums(group, bias, n: int, width: int) -> Array:
    """Calls group for all n heads, and returns what it has added up in arrays like the bias.

    Where several heads share numbers of the bias, each thread has sums of its own; they are added in a fixed order.
    """
    b, n_head, _, _ = bias.shape
    alone = b * n_head == n
    common = np.zeros(bias.shape, bias.dtype)

    def of_a_thread(heads):
        sums = common if alone else np.zeros_like(common)
        over(functools.partial(group, dbias=sums), heads, width)
        return sums

    parts = share(of_a_thread, n, work=n * width)
    if alone:
        return common
    for part in parts:
        common += part
    return common


def _scores(q, k, rules, tile):
    """The scores (G,R,S) of a tile: the scaled products and the bias, and -inf where a key is not seen."""
    g, rows, seen = tile
    s = q[g, rows] @ _transposed(k[g, seen])
    if rules.bias is not None:
        s += rules.part(rules.bias, tile)
    if rules.causal:
        r = rows.stop - rows.start
        last = s[..., -r:]
        last += _future(r, s.dtype)
    if rules.mask is not None:
        visible = rules.part(rules.mask, tile)
        limits = _limits(visible, s.dtype)
        np.minimum(s, limits, out=s)
    return s


@functools.cache
def _future(r, dtype):
    """(R,R): -inf for a key that comes after the query, and 0"""
    hidden = np.full((r, r), -math.inf, dtype)
    return np.triu(hidden, 1)


def _limits(visible, dtype):
    """inf where a key is seen, and -inf elsewhere. (np.where takes fifty times as long.)"""
    limits = visible.astype(dtype)
    limits -= 0.5
    limits *= math.inf
    return limits


def _blind(rules, tile):
    """(G or 1, R or 1, 1) boolean: the queries that see nothing."""
    visible = rules.part(rules.mask, tile)
    return ~visible.any(axis=-1, keepdims=True)


def _exp(s):
    """s (G,R,S), exponentiated in place -> (G,R,1), the sum of each row"""
    np.exp(s, out=s)
    ones = np.ones((s.shape[-1], 1), s.dtype)
    return s @ ones


def _exp_shifted(s, log_z):
    """The same after the largest of each row is taken away; fills log_z (G,R,1), the logarithm of the whole sum."""
    shift = s.max(axis=-1, keepdims=True)
    shift[shift == -math.inf] = 0  # a query that sees nothing: its sum is called 1
    s -= shift
    z = _exp(s)
    z[z == 0] = 1
    np.add(np.log(z), shift, out=log_z)
    return z


def _exp_again(s, log_z):
    """s (G,R,S), log_z (G,R,1) -> e, in the place of s, and 1 / z, whose product are the probabilities."""
    z_inverse = 1
    if np.abs(log_z).max() < SAFE:
        z_inverse = np.exp(-log_z)
    else:
        s -= log_z
    np.exp(s, out=s)
    return s, z_inverse


def _keep(rules, t, s, tile):
    """(G,R,S) boolean: a tile of what keep_mask gives for all probabilities (B,NH,T,S)."""
    g, rows, seen = tile
    head = np.arange(g.start, g.stop) + rules.key.row * rules.n_head
    query = head[:, None] * t + np.arange(rows.start, rows.stop)
    first = query * s & 0xFFFFFFFF
    first = first.astype(np.uint32)
    key = np.arange(seen.start, seen.stop, dtype=np.uint32)
    return keep_at(rules.key, rules.rate, first[..., None] + key)


def _add_product(total, seen, a, b, first):
    """a (G,R,S), b (G,R,D): the rows of total (G,S,D) that are seen get a^T b; the first product begins the sum."""
    everything = seen.stop - seen.start == total.shape[1]
    if first and everything:
        np.matmul(_transposed(a), b, out=total)
        return
    if first:
        total[...] = 0
    part = total[:, seen]
    part += _transposed(a) @ b


def _add_scores(total, ds, n_head, tile):
    """ds (G,R,S), gradients of scores, are added to total (B or 1, NH or 1, T or 1, S or 1): head after head."""
    b, heads, t, s = total.shape
    if t == 1:
        ds = ds.sum(axis=1, keepdims=True)
    if s == 1:
        ds = ds.sum(axis=2, keepdims=True)
    rows = _unless_one(t, tile.rows)
    seen = _unless_one(s, tile.seen)
    for n, of_head in enumerate(ds, tile.heads.start):
        batch = n // n_head if b > 1 else 0
        head = n % n_head if heads > 1 else 0
        part = total[batch, head, rows, seen]
        part += of_head


def _seen(mask, rows, s):
    """The keys from the first to the last that the mask shows to any of these queries; at least one key."""
    rows = _unless_one(mask.shape[2], rows)
    shown = mask[:, :, rows].any(axis=(0, 1, 2))
    keys = np.broadcast_to(shown, s).nonzero()[0]
    if len(keys) == 0:
        return slice(0, 1)
    first = int(keys[0])
    last = int(keys[-1])
    return slice(first, last + 1)


def _unless_one(size, part):
    """This part of an axis; all of an axis that has only one number, which stands for all."""
    return slice(None) if size == 1 else part


def _transposed(x):
    """x (G,R,S) -> (G,S,R), a view."""
    return x.swapaxes(-1, -2)

"""Attention of many heads, in tiles of queries, so that the probabilities never exist whole.

Arrays have an axis for texts and one for heads: q (B,NH,T,D), k and v (B,NH,S,D). A thread takes some texts and heads,
copies them into matrices of their own, computes with these, and writes its results where they belong. A tile of
queries meets at once all keys that any of its queries may see; so an ordinary softmax will do, and what a mask hides
from all of them is not computed.
"""

import functools
import math
from typing import NamedTuple

import numpy as np

from minigpt.device.arrays import Array
from minigpt.device.threads import share, threads
from minigpt.ops.fast import pieces
from minigpt.ops.random_keys import Key, keep_at

TILE = 64  # queries of one tile
SAFE = 40.0  # a row whose log-sum lies between -SAFE and SAFE needs no shift: exp neither overflows nor vanishes


class Tile(NamedTuple):
    """Some texts, some of their heads, some queries, and the keys that any of these may see."""

    texts: slice
    heads: slice
    rows: slice
    seen: slice


class Rules(NamedTuple):
    """What happens to the scores of an attention.

    scale: of the products. causal: a query sees the keys up to its own place. mask, bias: None, or with four axes, (B
    or 1, NH or 1, T or 1, S or 1). rate, key: of the dropout; key is None where there is none.
    """

    scale: float
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


def attend(q, k, v, rules: Rules) -> tuple[Array, Array, tuple[Array, Array, Array]]:
    """q (B,NH,T,D), k and v (B,NH,S,D) -> out (B,T,C), lse (B,NH,T,1), and copies of q times the scale, k and v

    lse is the logarithm of each row's sum of exponentials: from it the backward pass computes the probabilities of a
    tile again. It is 0 for a query that sees nothing. The copies are kept for the backward pass.
    """
    b, n_head, t, d = q.shape
    s = k.shape[2]
    heads = np.empty_like(q, order="C"), np.empty_like(k, order="C"), np.empty_like(v, order="C")
    out = np.empty((b, t, n_head * d), q.dtype)
    out_heads = split(out, n_head)
    lse = np.empty((b, n_head, t, 1), q.dtype)
    tiles = rules.tiles(t, s)

    def group(g):
        q_g, k_g, v_g = (array[g] for array in heads)
        np.multiply(q[g], rules.scale, out=q_g)
        k_g[...] = k[g]
        v_g[...] = v[g]
        for rows, seen in tiles:
            tile = Tile(*g, rows, seen)
            log_z = lse[*g, rows]
            e = _scores(q_g, k_g, rules, tile)
            with np.errstate(over="ignore", divide="ignore"):
                z = _exp(e)
                if rules.mask is not None:
                    z += _blind(rules, tile)
                np.log(z, out=log_z)
            if not np.abs(log_z).max() < SAFE:
                e = _scores(q_g, k_g, rules, tile)
                z = _exp_shifted(e, log_z)
            if rules.key is not None:
                e *= _keep(rules, (n_head, t, s), tile)
                z *= 1 - rules.rate
            o = e @ v_g[:, :, seen]
            np.divide(o, z, out=out_heads[*g, rows])

    _share_heads(group, b, n_head, min(t, TILE) * s)
    return out, lse, heads


def attend_backward(dout, out, lse, heads: tuple, dheads: tuple, rules: Rules) -> Array | None:
    """dout and out (B,T,C), lse (B,NH,T,1); fills dheads and returns dbias, in the shape of the bias, or None

    heads: what attend has copied; dheads: arrays (B,NH,*,D) for the gradients of q, k and v.
    With p = e / z the division goes to dout, which is smaller: p (dp - delta) = e (dp / z - delta / z), where delta,
    the mean of dp under p, is the product of dout and out.
    """
    dq, dk, dv = dheads
    b, n_head, t, _ = dq.shape
    s = dk.shape[2]
    dout_heads = split(dout, n_head)
    out_heads = split(out, n_head)
    tiles = rules.tiles(t, s)

    def group(g, dbias):
        q_g, k_g, v_g = (array[g] for array in heads)
        dk_g = np.empty_like(k_g)
        dv_g = np.empty_like(v_g)
        for rows, seen in reversed(tiles):  # a causal one begins with the tile that sees every key
            tile = Tile(*g, rows, seen)
            first = rows.stop == t
            e, z_inverse = _exp_again(_scores(q_g, k_g, rules, tile), lse[*g, rows])
            do = dout_heads[*g, rows]
            delta = np.vecdot(do, out_heads[*g, rows])[..., None]
            d = np.multiply(do, z_inverse, order="C")
            de = d @ _transposed(v_g[:, :, seen])
            a = e
            if rules.key is not None:
                stretch = dout.dtype.type(1 / (1 - rules.rate))
                kept = _keep(rules, (n_head, t, s), tile) * stretch
                de *= kept
                a = np.multiply(e, kept, out=kept)
            _add_product(dv_g, seen, a, d, first)
            de -= delta * z_inverse
            de *= e
            np.multiply(de @ k_g[:, :, seen], rules.scale, out=dq[*g, rows])
            _add_product(dk_g, seen, de, q_g[:, :, rows], first)
            if dbias is not None:
                _add_scores(dbias, de, tile)
        dk[g] = dk_g
        dv[g] = dv_g

    sizes = b, n_head, min(t, TILE) * s
    if rules.bias is None:
        _share_heads(functools.partial(group, dbias=None), *sizes)
        return None
    return _with_sums(group, rules.bias, *sizes)


def split(x, n_head, parts=1):
    """x (B,T,parts C) -> (B,NH,T,D), or (parts,B,NH,T,D) for more than one: a view, so what is written there is in x"""
    b, t, c = x.shape
    size = c // parts // n_head
    packed = x.reshape(b, t, parts, n_head, size)
    heads = packed.transpose(2, 0, 3, 1, 4)
    return heads[0] if parts == 1 else heads


def _share_heads(group, b: int, n_head: int, width: int, begin=lambda: ()) -> list:
    """Calls group((texts, heads), ...) until all heads of all texts are done; threads take texts, or else heads.

    width: elements of a head's tile; a group has about pieces.PIECE of them. begin(): a thread's own last arguments.
    Returns what begin gave to each of the threads.
    """
    n = threads()
    longest_of_texts = math.ceil(b / n) / b
    longest_of_heads = math.ceil(n_head / n) / n_head
    at_once = max(1, pieces.PIECE // max(1, width))

    def part(texts, heads):
        own = begin()
        few_heads = min(at_once, heads.stop - heads.start)
        few_texts = max(1, at_once // few_heads)
        for some_texts in pieces.in_steps(texts, few_texts):
            for some_heads in pieces.in_steps(heads, few_heads):
                group((some_texts, some_heads), *own)
        return own

    work = b * n_head * width
    if longest_of_texts <= longest_of_heads:
        return share(lambda texts: part(texts, slice(0, n_head)), b, work=work)
    return share(lambda heads: part(slice(0, b), heads), n_head, work=work)


def _with_sums(group, bias, b: int, n_head: int, width: int) -> Array:
    """Calls group for all heads, and returns what it has added up in arrays like the bias.

    Where several heads share numbers of the bias, each thread has sums of its own; they are added in a fixed order.
    """
    common = np.zeros(bias.shape, bias.dtype)
    if bias.shape[:2] == (b, n_head):
        _share_heads(group, b, n_head, width, begin=lambda: (common,))
        return common
    of_threads = _share_heads(group, b, n_head, width, begin=lambda: (np.zeros_like(bias),))
    for (sums,) in of_threads:
        common += sums
    return common


def _scores(q, k, rules, tile):
    """The scores (B,H,R,S) of a tile of these heads: the products and the bias, and -inf where a key is not seen."""
    s = q[:, :, tile.rows] @ _transposed(k[:, :, tile.seen])
    if rules.bias is not None:
        s += _part(rules.bias, tile)
    if rules.causal:
        r = tile.rows.stop - tile.rows.start
        last = s[..., -r:]
        np.fmin(last, _up_to_the_query(r, s.dtype), out=last)
    if rules.mask is not None:
        visible = _part(rules.mask, tile)
        np.fmin(s, _limits(visible, s.dtype), out=s)
    return s


@functools.cache
def _up_to_the_query(r, dtype):
    """(R,R): what `_limits` gives where each query sees the keys up to its own place"""
    return _limits(np.tri(r, dtype=bool), dtype)


def _limits(visible, dtype):
    """inf where a key is seen, and -inf elsewhere. (np.where takes fifty times as long.)

    np.fmin of scores and limits keeps a score that is seen, and gives -inf where none is, also in the place of NaN.
    """
    limits = visible.astype(dtype)
    limits -= 0.5
    limits *= math.inf
    return limits


def _blind(rules, tile):
    """(B or 1, H or 1, R or 1, 1) boolean: the queries that see nothing."""
    visible = _part(rules.mask, tile)
    return ~visible.any(axis=-1, keepdims=True)


def _exp(s):
    """s (B,H,R,S), exponentiated in place -> (B,H,R,1), the sum of each row"""
    np.exp(s, out=s)
    ones = np.ones((s.shape[-1], 1), s.dtype)
    return s @ ones


def _exp_shifted(s, log_z):
    """The same after the largest of each row is taken away; fills log_z (B,H,R,1), the logarithm of the sum."""
    shift = s.max(axis=-1, keepdims=True)
    shift[shift == -math.inf] = 0  # a query that sees nothing: its sum is called 1
    s -= shift
    z = _exp(s)
    z[z == 0] = 1
    np.add(np.log(z), shift, out=log_z)
    return z


def _exp_again(s, log_z):
    """s (B,H,R,S), log_z (B,H,R,1) -> e, in the place of s, and 1 / z, whose product are the probabilities."""
    z_inverse = 1
    if np.abs(log_z).max() < SAFE:
        z_inverse = np.exp(-log_z)
    else:
        s -= log_z
    np.exp(s, out=s)
    return s, z_inverse


def _keep(rules, shape, tile):
    """(B,H,R,S) boolean: a tile of what keep_mask gives for all probabilities (B,NH,T,S). shape: (NH,T,S)"""
    n_head, t, s = shape
    text = np.arange(tile.texts.start, tile.texts.stop) + (rules.key.row & 0xFFFFFFFF)
    head = text[:, None] * n_head + np.arange(tile.heads.start, tile.heads.stop)
    query = head[..., None] * t + np.arange(tile.rows.start, tile.rows.stop)
    first = query * s & 0xFFFFFFFF
    first = first.astype(np.uint32)
    key = np.arange(tile.seen.start, tile.seen.stop, dtype=np.uint32)
    return keep_at(rules.key, rules.rate, first[..., None] + key)


def _add_product(total, seen, a, b, first):
    """a (B,H,R,S), b (B,H,R,D): the rows of total (B,H,S,D) that are seen get a^T b; the first product begins it."""
    everything = seen.stop - seen.start == total.shape[2]
    if first and everything:
        np.matmul(_transposed(a), b, out=total)
        return
    if first:
        total[...] = 0
    part = total[:, :, seen]
    part += _transposed(a) @ b


def _add_scores(total, ds, tile):
    """ds (B,H,R,S), gradients of a tile's scores, are added to total (B or 1, NH or 1, T or 1, S or 1)."""
    for axis, size in enumerate(total.shape):
        if size == 1:
            ds = ds.sum(axis=axis, keepdims=True)
    part = _part(total, tile)
    part += ds


def _part(array, tile):
    """What a tile has of a mask or a bias, or of sums like it: (B or 1, H or 1, R or 1, S or 1), a view."""
    parts = []
    for size, part in zip(array.shape, tile, strict=True):
        parts.append(_unless_one(size, part))
    return array[tuple(parts)]


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
    """x (B,H,R,S) -> (B,H,S,R), a view."""
    return x.swapaxes(-1, -2)

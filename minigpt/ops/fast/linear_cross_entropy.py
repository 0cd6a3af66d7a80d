"""The tied head and its loss: logits exist for some rows at a time, and become their own gradient in place."""

import math
from typing import NamedTuple

import numpy as np

from minigpt.device.arrays import Array
from minigpt.device.threads import share
from minigpt.ops.fast.pieces import accepts, column_sums, over, products, row_sums
from minigpt.ops.fast.row_shares import row_shares
from minigpt.ops.targets import IGNORED

LOGITS = 1 << 25  # how many exist at once: 128 MB in float32
WORDS = 1 << 10  # rows of dw that are added to while their product is in the cache


class LinearCrossEntropyCache(NamedTuple):
    dh: Array
    dw: Array
    dbias: Array | None


def linear_cross_entropy_supports(
    h, w, targets, bias=None, *, weights=None, normalizer=None, grad=True
) -> str | None:
    """Wrong targets are left to the reference, which raises the error."""
    if type(targets) is not np.ndarray or targets.shape != h.shape[:-1]:
        return "it takes targets in a NumPy array, one for each row"
    is_word = (targets >= 0) & (targets < len(w))
    if not (is_word | (targets == IGNORED)).all():
        return "a target is out of range"
    if bias is None:
        return accepts(h, w)
    if bias.shape != (len(w),):
        return "it takes a bias of one number for each word"
    return accepts(h, w, bias)


def linear_cross_entropy_forward(h, w, targets, bias=None, *, weights=None, normalizer=None, grad=True):
    """h (*,C), w (V,C), targets (*) int, [bias (V,)] -> loss ()

    Logits that are thrown away would have to be computed again for the backward pass. So their gradient, for
    dloss = 1, is taken at once, and that of h, w and bias with it: these are what is kept.
    """
    y = targets.reshape(-1)
    ignored = y == IGNORED
    y = np.where(ignored, 0, y)
    rows = h.reshape(-1, h.shape[-1])
    counted = np.where(ignored, 0, 1 if weights is None else weights.reshape(-1))
    share_of_row = row_shares(len(y), counted, normalizer, h.dtype)

    dh = dw = dbias = None
    if grad:
        dh = np.empty_like(rows)
        dw = np.empty(w.shape, w.dtype)
    if grad and bias is not None:
        dbias = np.zeros_like(bias)
    n = len(rows)
    loss = 0.0
    chunks = max(1, math.ceil(n * len(w) / LOGITS))
    for chunk in range(chunks):
        part = slice(n * chunk // chunks, n * (chunk + 1) // chunks)
        some = Rows(rows[part], y[part], share_of_row[part], dh[part] if grad else None)
        loss += _chunk(some, w, bias, dw, dbias, first=chunk == 0)
    loss = h.dtype.type(loss)
    return loss, LinearCrossEntropyCache(dh.reshape(h.shape), dw, dbias) if grad else None


def linear_cross_entropy_backward(dloss, cache: LinearCrossEntropyCache):
    """dloss () -> dh (*,C), dw (V,C), [dbias (V,)]"""
    dh, dw, dbias = cache
    dbias = None if dbias is None else _times(dbias, dloss)
    return _times(dh, dloss), _times(dw, dloss), dbias


class Rows(NamedTuple):
    """Some rows: h (N,C), their targets y (N,), their share of the loss (N,), and dh (N,C), to be filled, or None."""

    h: Array
    y: Array
    share: Array
    dh: Array | None


def _chunk(rows: Rows, w, bias, dw, dbias, first):
    """The loss of some rows. Unless dh is None, it is filled, and dw (V,C) and dbias (V,) are added to."""
    h, y, share_of_row, dh = rows
    logits = np.empty((len(h), len(w)), h.dtype)

    def piece(i):
        z = logits[i]
        n = np.arange(len(z))
        if bias is not None:
            z += bias
        z -= z.max(axis=-1, keepdims=True)
        picked = z[n, y[i]]
        np.exp(z, out=z)
        total = row_sums(z)
        if dh is not None:
            z *= share_of_row[i][:, None] / total
            z[n, y[i]] -= share_of_row[i]
        lse = np.log(total[:, 0])
        return float(share_of_row[i] @ (lse - picked))

    def for_rows(n):
        np.matmul(h[n], w.T, out=logits[n])
        losses = over(piece, n, len(w))
        if dh is not None:
            np.matmul(logits[n], w, out=dh[n])
        return sum(losses)

    def for_words(v):
        if dbias is not None:
            dbias[v] += column_sums(logits[:, v])
        if first:
            np.matmul(logits.T[v], h, out=dw[v])
            return
        for i in range(v.start, v.stop, WORDS):
            words = slice(i, min(i + WORDS, v.stop))
            sums = dw[words]
            sums += logits.T[words] @ h

    loss = sum(share(for_rows, len(h), work=products(len(h), w, w)))
    if dh is not None:
        share(for_words, len(w), work=products(len(h), w))
    return loss


def _times(gradient, dloss):
    """The gradient times a number, in a new array; times 1 it is the gradient itself, as in dropout without a key."""
    if dloss == 1:
        return gradient
    out = np.empty_like(gradient)
    factor = gradient.dtype.type(dloss)
    rows = gradient.reshape(-1, gradient.shape[-1])
    products = out.reshape(rows.shape)
    share(lambda i: np.multiply(rows[i], factor, out=products[i]), len(rows), work=gradient.size)
    return out

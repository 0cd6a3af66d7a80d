"""The tied head and its loss: logits exist for some rows at a time, and become their own gradient in place."""

import math
from typing import NamedTuple

import numpy as np

from minigpt.device.arrays import Array
from minigpt.device.threads import share
from minigpt.ops.fast.pieces import accepts, over, products, row_sums

LOGITS = 1 << 25  # how many exist at once: 128 MB in float32
WORDS = 1 << 10  # rows of dw that are added to while their product is in the cache
IGNORED = -100  # a target that is not predicted


class LinearCrossEntropyCache(NamedTuple):
    dh: Array
    dw: Array


def linear_cross_entropy_supports(h, w, targets, *, weights=None, normalizer=None, grad=True) -> str | None:
    """Wrong targets are left to the reference, which raises the error."""
    if type(targets) is not np.ndarray or targets.shape != h.shape[:-1]:
        return "it takes targets in a NumPy array, one for each row"
    if not ((targets == IGNORED) | (targets >= 0) & (targets < len(w))).all():
        return "a target is out of range"
    return accepts(h, w)


def linear_cross_entropy_forward(h, w, targets, *, weights=None, normalizer=None, grad=True):
    """h (*,C), w (V,C), targets (*) int -> loss ()

    Logits that are thrown away would have to be computed again for the backward pass. So their gradient, for
    dloss = 1, is taken at once, and that of h and w with it: these are what is kept.
    """
    y = targets.reshape(-1)
    ignored = y == IGNORED
    rows, y = h.reshape(-1, h.shape[-1]), np.where(ignored, 0, y)
    weights = np.where(ignored, 0, 1 if weights is None else weights.reshape(-1)).astype(h.dtype)
    weights /= h.dtype.type((weights.sum() if normalizer is None else normalizer) or 1)

    dh, dw = (np.empty_like(rows), np.zeros(w.shape, w.dtype)) if grad else (None, None)
    n, loss = len(rows), 0.0
    chunks = math.ceil(n * len(w) / LOGITS)
    for chunk in range(chunks):
        part = slice(n * chunk // chunks, n * (chunk + 1) // chunks)
        loss += _chunk(rows[part], w, y[part], weights[part], dh[part] if grad else None, dw, first=chunk == 0)
    return h.dtype.type(loss), LinearCrossEntropyCache(dh.reshape(h.shape), dw) if grad else None


def linear_cross_entropy_backward(dloss, cache: LinearCrossEntropyCache):
    """dloss () -> dh (*,C), dw (V,C)"""
    return tuple(_times(gradient, dloss) for gradient in cache)


def _chunk(h, w, y, weights, dh, dw, first):
    """The loss of some rows h (N,C), whose gradients go into dh (N,C) and are added to dw (V,C), unless dh is None."""
    logits = np.empty((len(h), len(w)), h.dtype)

    def piece(i):
        z, n, share_of_row = logits[i], np.arange(i.stop - i.start), weights[i]
        z -= z.max(axis=-1, keepdims=True)
        picked = z[n, y[i]]
        np.exp(z, out=z)
        total = row_sums(z)
        if dh is not None:
            z *= share_of_row[:, None] / total
            z[n, y[i]] -= share_of_row
        return float(share_of_row @ (np.log(total[:, 0]) - picked))

    def for_rows(n):
        np.matmul(h[n], w.T, out=logits[n])
        losses = over(piece, n, len(w))
        if dh is not None:
            np.matmul(logits[n], w, out=dh[n])
        return sum(losses)

    def for_words(v):
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
    out, dloss = np.empty_like(gradient), gradient.dtype.type(dloss)
    rows, products = (a.reshape(-1, a.shape[-1]) for a in (gradient, out))
    share(lambda i: np.multiply(rows[i], dloss, out=products[i]), len(rows), work=gradient.size)
    return out

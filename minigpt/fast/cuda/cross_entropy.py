"""The tied head and its loss: products are CuPy's, what lies between them is the kernel in cross_entropy.cu."""

from typing import NamedTuple

import numpy as np

from minigpt.backend import Array, array_module
from minigpt.fast.cuda.kernels import launch, ours

LOGITS = 1 << 27  # how many exist at once: 512 MB in float32
THREADS = 256  # of a row: WARPS warps
IGNORED = -100  # a target that is not predicted


class LinearCrossEntropyCache(NamedTuple):
    dh: Array
    dw: Array


def linear_cross_entropy_forward(h, w, targets, *, weights=None, normalizer=None, grad=True):
    """h (*,C), w (V,C), targets (*) int -> loss ()

    Some rows at a time: their logits become their own gradient in place, for dloss = 1, and give dh and dw at once.
    Some words at a time would do with less memory still, but each logit would have to be computed twice.
    """
    if not ours(h, w) or array_module(h) is not array_module(targets) or targets.shape != h.shape[:-1]:
        return NotImplemented
    xp = array_module(h)
    rows, y = h.reshape(-1, h.shape[-1]), targets.reshape(-1).astype(np.int64)
    ignored = y == IGNORED
    if not rows.size or not bool((ignored | (y >= 0) & (y < len(w))).all()):
        return NotImplemented
    y = xp.where(ignored, 0, y)
    share = xp.where(ignored, 0, 1 if weights is None else weights.reshape(-1)).astype(h.dtype)
    normalizer = share.sum() if normalizer is None else xp.asarray(normalizer, dtype=h.dtype)
    share = share / xp.where(normalizer == 0, 1, normalizer)

    loss = xp.empty(len(rows), h.dtype)
    dh, dw = (xp.empty_like(rows), None) if grad else (None, None)
    step = max(1, LOGITS // len(w))
    for first in range(0, len(rows), step):
        part = slice(first, first + step)
        z = rows[part] @ w.T
        row = z, loss[part], y[part], share[part]
        launch("cross_entropy", "cross_entropy", (len(z), 1, 1), (THREADS, 1, 1), *row, len(w), grad)
        if grad:
            xp.matmul(z, w, out=dh[part])
            sums = z.T @ rows[part]
            dw = sums if dw is None else xp.add(dw, sums, out=dw)
    return loss.sum(), LinearCrossEntropyCache(dh.reshape(h.shape), dw) if grad else None


def linear_cross_entropy_backward(dloss, cache: LinearCrossEntropyCache):
    """dloss () -> dh (*,C), dw (V,C)"""
    dloss = array_module(cache.dh).asarray(dloss, dtype=cache.dh.dtype)
    return cache.dh * dloss, cache.dw * dloss

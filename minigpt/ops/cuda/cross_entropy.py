"""The tied head and its loss: the kernel between the products stands in cross_entropy.cu."""

from typing import NamedTuple

import numpy as np

from minigpt.device.arrays import Array, array_module
from minigpt.ops.cuda.kernels import accepts, blocks, launch, launch_each, pack_of, wide
from minigpt.ops.cuda.products import padded, product

LOGITS = 1 << 28  # about how many exist at once: 1 GB in float32
WARPS = 32  # that take a row, at most
IGNORED = -100  # a target that is not predicted


class LinearCrossEntropyCache(NamedTuple):
    dh: Array
    dw: Array


def linear_cross_entropy_supports(h, w, targets, *, weights=None, normalizer=None, grad=True) -> str | None:
    """Targets are not looked at, for that would wait for the GPU: a wrong one gives NaN."""
    if targets.shape != h.shape[:-1] or not h.size:
        return "it takes one target for each row, and one row or more"
    if array_module(h) is not array_module(targets):
        return "its targets must be where the other arrays are"
    return accepts(h, w)


def linear_cross_entropy_forward(h, w, targets, *, weights=None, normalizer=None, grad=True):
    """h (*,C), w (V,C), targets (*) int -> loss ()

    Some rows at a time: their logits become their own gradient, for dloss = 1, in place where the dtype is the same,
    and give dh and dw at once. As few times as memory allows: each time all of dw is read and written again. Some words
    at a time would do with less memory still, but each logit would have to be computed twice. A target that is no word
    gives NaN.
    """
    xp, dtype = array_module(h), wide(h.dtype)
    rows, y = h.reshape(-1, h.shape[-1]), targets.reshape(-1).astype(np.int64)
    ignored = y == IGNORED
    share = xp.where(ignored, 0, 1 if weights is None else weights.reshape(-1)).astype(dtype)
    if normalizer is None:
        total = share.sum()
        share = share / xp.where(total == 0, 1, total)
    else:  # a number: as an array it would be copied from the host, which a recorded graph cannot do
        share = share / (float(normalizer) or 1.0)
    share = xp.where(ignored | (y >= 0) & (y < len(w)), share, np.nan).astype(dtype)
    y = xp.where(ignored, 0, y).clip(0, len(w) - 1)

    loss = xp.empty(len(rows), dtype)
    dh, dw = (xp.empty_like(rows), xp.empty(w.shape, dtype)) if grad else (None, None)
    step = blocks(len(rows), blocks(len(rows) * len(w), LOGITS))
    logits = padded(xp, step, len(w), dtype)
    slopes = None if not grad else logits if h.dtype == dtype else padded(xp, step, len(w), h.dtype)
    warps = min(WARPS, blocks(len(w), 8 * 32))  # fewer where a thread would have less than 8 words
    constants = {"WARPS": warps, "PACK": pack_of(logits.shape[1], logits, logits if slopes is None else slopes)}
    for first in range(0, len(rows), step):
        part = slice(first, first + step)
        z = product(rows[part], w.T, out=logits[: len(rows[part]), : len(w)])
        arguments = slopes, logits, loss[part], y[part], share[part], len(w), logits.shape[1]
        launch("cross_entropy", "cross_entropy", (len(z), 1, 1), (32 * warps, 1, 1), *arguments, **constants)
        if grad:
            dz = slopes[: len(z), : len(w)]
            product(dz, w, out=dh[part])
            product(dz.T, rows[part], out=dw, add=first > 0)
    return loss.sum(), LinearCrossEntropyCache(dh.reshape(h.shape), dw) if grad else None


def linear_cross_entropy_backward(dloss, cache: LinearCrossEntropyCache):
    """dloss () -> dh (*,C), dw (V,C)"""
    xp, factor = array_module(cache.dw), float(dloss)
    return tuple(launch_each("scale", "scale", xp.empty_like(x), x, factor, x.size) for x in cache)

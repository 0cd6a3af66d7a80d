"""Clipping and Adam, for a few rows of a tensor at a time, which stay in a processor's cache, and by all threads."""

import math
from collections.abc import Sequence

import numpy as np

from minigpt.device.arrays import Array
from minigpt.device.threads import SHARED, share
from minigpt.ops.fast.pieces import accepts
from minigpt.ops.table import table as ops

PIECE = 1 << 17  # elements of a tensor that are updated together

Tensors = Sequence[tuple[Array, Array, Array, Array]]


def adam_update_supports(tensors: Tensors, **settings) -> str | None:
    """Float32 and float64 tensors, each of one dtype."""
    for tensor in tensors:
        reason = accepts(*tensor)
        if reason:
            return reason
    return None


def adam_update(
    tensors: Tensors, *, copies: Sequence[Array | None], decays: Sequence[bool], rate: float, eps: float, decay: float,
    betas: tuple[float, float], max_norm: float | None = None,
) -> float:
    """tensors: as for the reference, with the same bits for each piece and any number of threads"""
    norm = 0.0
    if max_norm is not None:
        norm = ops.clip_gradients([g for _, g, _, _ in tensors], max_norm)
        if not math.isfinite(norm):
            return norm
    for tensor, copy, decaying in zip(tensors, copies, decays, strict=True):
        _update_in_pieces(tensor, rate, eps, decay if decaying else 0.0, betas)
        if copy is not None:
            copy[...] = tensor[0]
    return norm


def _update_in_pieces(tensor, rate, eps, decay, betas):
    first = tensor[0]
    if first.ndim == 0:
        _update(*tensor, rate, eps, decay, betas)
        return
    step = max(1, PIECE * len(first) // max(1, first.size))

    def part(rows):
        for i in range(rows.start, rows.stop, step):
            piece = slice(i, min(i + step, rows.stop))
            _update(*(array[piece] for array in tensor), rate, eps, decay, betas)

    share(part, len(first), work=first.size // PIECE * SHARED)  # less than a piece is not worth a second thread


def _update(p, g, m, v, rate, eps, decay, betas):
    """The formula line by line, with one array for whatever stands between two lines."""
    beta1, beta2 = betas
    a = np.empty_like(p)
    np.subtract(g, m, out=a)
    a *= 1 - beta1
    m += a
    np.multiply(g, g, out=a)
    a -= v
    a *= 1 - beta2
    v += a
    np.sqrt(v, out=a)
    a += eps
    np.divide(m, a, out=a)
    a *= rate
    if decay:
        p *= 1 - decay
    p -= a

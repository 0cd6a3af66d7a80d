"""Adam by all threads, for a few rows of a tensor at a time, which stay in a processor's cache."""

import math
from collections.abc import Sequence

import numpy as np

from minigpt.device.arrays import Array
from minigpt.device.threads import share
from minigpt.ops.fast import pieces
from minigpt.ops.fast.pieces import accepts
from minigpt.ops.table import table as ops

PIECE = 1 << 17  # elements of a tensor that are updated together
UPDATE = 2  # elements of `share` for one that is updated

Tensors = Sequence[tuple[Array, Array, Array, Array]]


def adam_update_supports(tensors: Tensors, **settings) -> str | None:
    """None for tensors of NumPy arrays, float32 or float64, each of one dtype; otherwise the reason why not."""
    for tensor in tensors:
        reason = accepts(*tensor)
        if reason:
            return reason
    return None


def adam_update(
    tensors: Tensors, *, copies: Sequence[Array | None], decays: Sequence[bool], rate: float, eps: float, decay: float,
    betas: tuple[float, float], max_norm: float | None = None,
) -> float:
    """Update every (p, g, m, v), four arrays of one shape, in place. Returns the norm of all gradients together.

    Arguments and results are the reference's. The size of the pieces and the number of threads do not change a bit.
    """
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


def clip_gradients_supports(gradients: Sequence[Array], max_norm: float | None) -> str | None:
    """None for NumPy arrays of float32 or float64, each of one axis or more; otherwise the reason why not."""
    for g in gradients:
        reason = accepts(g)
        if reason:
            return reason
        if g.ndim == 0:
            return "it takes arrays of one axis or more"
    return None


def clip_gradients(gradients: Sequence[Array], max_norm: float | None) -> float:
    """Scale all gradients in place by min(1, max_norm / norm); returns their norm. Each thread takes some rows."""
    squares = 0.0
    for g in gradients:
        squares += sum(share(lambda rows, g=g: _square(g[rows]), len(g), work=g.size // pieces.PASS))
    norm = math.sqrt(squares)
    if max_norm and math.isfinite(norm) and norm > max_norm:
        for g in gradients:
            g *= max_norm / norm
    return norm


def _square(g) -> float:
    """The sum of the squares of an array."""
    flat = g.reshape(-1)
    return float(flat @ flat)


def _update_in_pieces(tensor, rate, eps, decay, betas):
    p, g, m, v = tensor
    if p.ndim == 0 or p.size <= PIECE:  # most tensors of a small model: cutting them would take as long as the update
        _update(p, g, m, v, rate, eps, decay, betas)
        return
    step = max(1, PIECE * len(p) // max(1, p.size))

    def part(rows):
        for start in range(rows.start, rows.stop, step):
            i = slice(start, min(start + step, rows.stop))
            _update(p[i], g[i], m[i], v[i], rate, eps, decay, betas)

    share(part, len(p), work=UPDATE * p.size)


def _update(p, g, m, v, rate, eps, decay, betas):
    """The reference's formula, with one array, a, for every intermediate result."""
    beta1, beta2 = betas
    a = np.empty_like(p)
    # m += (1 - beta1) (g - m)
    np.subtract(g, m, out=a)
    a *= 1 - beta1
    m += a
    # v += (1 - beta2) (g^2 - v)
    np.multiply(g, g, out=a)
    a -= v
    a *= 1 - beta2
    v += a
    # p -= rate m / (sqrt(v) + eps) + decay p
    np.sqrt(v, out=a)
    a += eps
    np.divide(m, a, out=a)
    a *= rate
    if decay:
        p *= 1 - decay
    p -= a

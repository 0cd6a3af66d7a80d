"""Cross-entropy with soft targets."""

from typing import NamedTuple

import numpy as np

from minigpt.device.arrays import Array
from minigpt.ops.fast.pieces import accepts, row_sums, share_over
from minigpt.ops.fast.row_shares import row_shares


class SoftCrossEntropyCache(NamedTuple):
    log_p: Array
    p: Array
    q: Array
    losses: Array
    temperature: float
    share: Array
    shape: tuple[int, ...]


def soft_cross_entropy_supports(
    logits, target_logits, *, temperature=1.0, weights=None, normalizer=None
) -> str | None:
    """Two arrays of one dtype that are not empty."""
    if not logits.size:
        return "it takes rows of one logit or more, and one row or more"
    return accepts(logits, target_logits)


def soft_cross_entropy_forward(logits, target_logits, *, temperature=1.0, weights=None, normalizer=None):
    """logits (*,V), target_logits (*,V) -> loss ()

    Each exponential is computed once, and q log p is summed without an array of its own.
    """
    temperature = float(temperature)
    v = logits.shape[-1]
    u = logits.reshape(-1, v)
    t = target_logits.reshape(-1, v)
    share = row_shares(len(u), weights, normalizer, u.dtype)
    log_p = np.empty_like(u)
    p = np.empty_like(u)
    q = np.empty_like(u)
    losses = np.empty(len(u), u.dtype)

    def piece(i):
        total = _exponentials(u[i], temperature, log_p[i], p[i])
        log_p[i] -= np.log(total)
        p[i] *= 1 / total
        total = _exponentials(t[i], temperature, q[i], q[i])
        q[i] *= 1 / total
        losses[i] = -np.vecdot(q[i], log_p[i])

    share_over(piece, *u.shape)
    loss = np.sum(share * losses) * temperature**2
    cache = SoftCrossEntropyCache(log_p, p, q, losses, temperature, share, logits.shape)
    return loss, cache


def soft_cross_entropy_backward(dloss, cache: SoftCrossEntropyCache):
    """dloss () -> dlogits (*,V), dtarget_logits (*,V)

    dlogits = T share (p - q),   dtarget_logits = T share q (-log p - losses): under q the mean of -log p is the loss.
    """
    log_p, p, q, losses, temperature, share, shape = cache
    factor = share * share.dtype.type(dloss * temperature)
    factor = factor[:, None]
    mean = losses[:, None]
    du = np.empty_like(p)
    dt = np.empty_like(p)

    def piece(i):
        d = np.subtract(p[i], q[i], out=du[i])
        d *= factor[i]
        d = np.add(log_p[i], mean[i], out=dt[i])
        d *= q[i]
        d *= -factor[i]

    share_over(piece, *p.shape)
    return du.reshape(shape), dt.reshape(shape)


def _exponentials(x, temperature, shifted, out):
    """x (N,V): shifted is overwritten with x / temperature less its largest number, out with exp of it -> sums (N,1)

    Both may be the same array.
    """
    np.divide(x, temperature, out=shifted)
    shifted -= shifted.max(axis=-1, keepdims=True)
    np.exp(shifted, out=out)
    return row_sums(out)

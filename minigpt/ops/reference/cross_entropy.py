"""Cross-entropy of the next token (GPT-1 equation 1)."""

from typing import NamedTuple

from minigpt.device.arrays import Array, array_module
from minigpt.ops.targets import IGNORED, check_targets


class CrossEntropyCache(NamedTuple):
    p: Array
    targets: Array
    share: Array


def cross_entropy_forward(logits, targets, *, weights=None, normalizer=None):
    """logits (*,V), targets (*) int -> loss ()

    loss = sum_n w[n] (lse[n] - logits[n, targets[n]]) / normalizer,   lse = log sum_v exp(logits[v]), in nats.

    weights: (*), 1 by default; a target of -100 has weight 0. normalizer: the sum of the weights by default; for a part
    of a batch, that of the whole batch. A batch with nothing to predict has loss 0.
    Raises InputError for a target outside 0..V-1 that is not -100, and for targets of another shape.
    """
    xp = array_module(logits, targets)
    y = targets.reshape(-1)
    check_targets(logits, targets)
    ignored = y == IGNORED
    y = xp.where(ignored, 0, y)
    share = row_shares(ignored, weights, normalizer, logits.dtype, xp)

    rows = xp.arange(len(y))
    z = logits.reshape(-1, logits.shape[-1])
    z = z - z.max(axis=-1, keepdims=True)
    e = xp.exp(z)
    total = e.sum(axis=-1, keepdims=True)
    lse = xp.log(total[:, 0])
    losses = share * (lse - z[rows, y])
    loss = losses.sum()
    p = e / total
    p = p.reshape(logits.shape)
    return loss, CrossEntropyCache(p, y, share)


def cross_entropy_backward(dloss, cache: CrossEntropyCache):
    """dloss () -> dlogits (*,V)

    dlogits = (p - onehot(target)) share: every wrong answer is pushed down by its probability, the right one up.
    """
    p, y, share = cache
    xp = array_module(p)
    rows = xp.arange(len(y))
    # losses = share * (lse - z[rows, y]), where the derivative of lse = log(sum(exp(z))) is p
    dz = p.reshape(-1, p.shape[-1]).copy()
    dz[rows, y] -= 1
    # loss = losses.sum()
    dlosses = share * dloss
    dz *= dlosses[:, None]
    return dz.reshape(p.shape)


def row_shares(ignored, weights, normalizer, dtype, xp):
    """The factor (N,) of each row in the loss: its weight divided by the normalizer, and 0 where it is ignored."""
    w = 1
    if weights is not None:
        w = weights.reshape(-1)
    w = xp.where(ignored, 0, w)
    w = w.astype(dtype)
    if normalizer is None:
        normalizer = w.sum()
    else:
        normalizer = xp.asarray(normalizer, dtype=dtype)
    return w / xp.where(normalizer == 0, 1, normalizer)

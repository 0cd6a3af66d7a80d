"""Cross-entropy of the next token (GPT-1 equation 1)."""

from typing import NamedTuple

from minigpt.device.arrays import Array, array_module
from minigpt.errors import InputError

IGNORED = -100  # a target that is not predicted


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
    vocabulary = logits.shape[-1]
    if targets.shape != logits.shape[:-1]:
        raise InputError(f"targets of shape {targets.shape} do not fit logits of shape {logits.shape}: give one a row")
    z, y = logits.reshape(-1, vocabulary), targets.reshape(-1)
    ignored = y == IGNORED
    if y.size and (bool(((y < 0) & ~ignored).any()) or int(y.max()) >= vocabulary):
        raise InputError(f"targets must be -100 or 0 to {vocabulary - 1}: got {int(y.min())} to {int(y.max())}")
    y, n = xp.where(ignored, 0, y), xp.arange(len(y))
    w = xp.where(ignored, 0, 1 if weights is None else weights.reshape(-1)).astype(z.dtype)
    normalizer = w.sum() if normalizer is None else xp.asarray(normalizer, dtype=z.dtype)
    share = w / xp.where(normalizer == 0, 1, normalizer)

    z = z - z.max(axis=-1, keepdims=True)
    e = xp.exp(z)
    total = e.sum(axis=-1, keepdims=True)
    lse = xp.log(total[:, 0])
    loss = (share * (lse - z[n, y])).sum()
    return loss, CrossEntropyCache((e / total).reshape(logits.shape), y, share)


def cross_entropy_backward(dloss, cache: CrossEntropyCache):
    """dloss () -> dlogits (*,V)

    dlogits = (p - onehot(target)) share: every wrong answer is pushed down by its probability, the right one up.
    """
    p, y, share = cache
    xp = array_module(p)
    dz = p.reshape(-1, p.shape[-1]).copy()
    # lse = log(sum(exp(z))), whose derivative is p, minus z[n, y]
    dz[xp.arange(len(y)), y] -= 1
    # loss = sum(share * ...)
    dz *= (share * dloss)[:, None]
    return dz.reshape(p.shape)

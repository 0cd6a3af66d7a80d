"""Cross-entropy with soft targets, the probabilities of a teacher (Hinton, Vinyals and Dean 2015, section 2)."""

from typing import NamedTuple

from minigpt.device.arrays import Array, array_module
from minigpt.ops.reference.cross_entropy import row_shares


class SoftCrossEntropyCache(NamedTuple):
    log_p: Array
    p: Array
    q: Array
    temperature: float
    share: Array
    shape: tuple[int, ...]


def soft_cross_entropy_forward(logits, target_logits, *, temperature=1.0, weights=None, normalizer=None):
    """logits (*,V), target_logits (*,V) -> loss ()

    loss = T^2 sum_n share[n] (- sum_v q[n, v] log p[n, v]),
    p = softmax(logits / T),   q = softmax(target_logits / T),   with the temperature T.
    At a high temperature gradients become small as 1 / T^2: the factor undoes this.

    DistilBERT's loss is the divergence of p from q: less by the entropy of q, which is a constant of the student, so
    that the student's gradient is the same. weights: (*), 1 by default; normalizer: the sum of the weights by default.
    """
    xp = array_module(logits, target_logits)
    temperature = float(temperature)
    shape = logits.shape
    v = shape[-1]
    u = logits.reshape(-1, v)
    u = u / temperature
    t = target_logits.reshape(-1, v)
    t = t / temperature
    none_ignored = xp.zeros(len(u), bool)
    share = row_shares(none_ignored, weights, normalizer, u.dtype, xp)

    log_p = _log_softmax(u, xp)
    p = xp.exp(log_p)
    log_q = _log_softmax(t, xp)
    q = xp.exp(log_q)
    product = q * log_p
    losses = -product.sum(axis=-1)
    weighted = share * losses
    loss = weighted.sum()
    loss = loss * temperature**2
    cache = SoftCrossEntropyCache(log_p, p, q, temperature, share, shape)
    return loss, cache


def soft_cross_entropy_backward(dloss, cache: SoftCrossEntropyCache):
    """dloss () -> dlogits (*,V), dtarget_logits (*,V)

    dlogits = T (p - q) share: the student's probabilities move towards the teacher's.
    """
    log_p, p, q, temperature, share, shape = cache
    # loss = weighted.sum() * temperature**2
    dlosses = share * (dloss * temperature**2)
    dlosses = dlosses.astype(p.dtype)
    dlosses = dlosses[:, None]
    # losses = -sum(q * log_p), and log_p = log_softmax(u)
    du = p - q
    du = du * dlosses
    # u = logits / temperature
    dlogits = du / temperature
    dlogits = dlogits.reshape(shape)
    # losses = -sum(q * log_p), and q = softmax(t)
    dq = -log_p * dlosses
    product = q * dq
    average = product.sum(axis=-1, keepdims=True)
    dt = q * (dq - average)
    # t = target_logits / temperature
    dtarget_logits = dt / temperature
    dtarget_logits = dtarget_logits.reshape(shape)
    return dlogits, dtarget_logits


def _log_softmax(u, xp):
    """u (N,V) -> log softmax (N,V)"""
    u = u - u.max(axis=-1, keepdims=True)
    e = xp.exp(u)
    total = e.sum(axis=-1, keepdims=True)
    return u - xp.log(total)

import numpy as np


def probabilities(logits):
    """logits (B,V) -> p (B,V), the softmax; a logit of -inf gives 0"""
    e = np.exp(logits - logits.max(axis=-1, keepdims=True))
    return e / e.sum(axis=-1, keepdims=True)


def keep_min_p(logits, share):
    """logits (B,V) -> (B,V): less likely than `share` times the likeliest of its row becomes -inf"""
    p = probabilities(logits)
    return np.where(p >= share * p.max(axis=-1, keepdims=True), logits, -np.inf)


def keep_typical(logits, mass):
    """logits (B,V) -> (B,V): outside the most typical tokens that reach `mass` together, each becomes -inf"""
    p = probabilities(logits)
    surprisal = -np.log(np.where(p > 0, p, 1))
    entropy = (p * surprisal).sum(axis=-1, keepdims=True)
    distance = np.where(p > 0, np.abs(surprisal - entropy), np.inf)
    order = np.argsort(distance, axis=-1, kind="stable")
    reached = np.take_along_axis(p, order, axis=-1).cumsum(axis=-1)
    needed = np.minimum((reached < mass).sum(axis=-1) + 1, (p > 0).sum(axis=-1))
    stays = np.zeros(p.shape, bool)
    np.put_along_axis(stays, order, np.arange(p.shape[-1]) < needed[:, None], axis=-1)
    return np.where(stays, logits, -np.inf)

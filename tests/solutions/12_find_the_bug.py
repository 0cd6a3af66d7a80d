import numpy as np


def probabilities(logits):
    """logits (B,V) -> p (B,V), the softmax"""
    e = np.exp(logits - logits.max(axis=-1, keepdims=True))
    return e / e.sum(axis=-1, keepdims=True)


def keep_nucleus(logits, p):
    """logits (B,V) -> (B,V): outside the smallest set of likeliest tokens that reaches p, each becomes -inf"""
    order = np.argsort(-logits, axis=-1)
    descending = probabilities(np.take_along_axis(logits, order, axis=-1))
    mass_before = descending.cumsum(axis=-1) - descending
    inside = mass_before < p
    back = order.argsort(axis=-1)
    return np.where(np.take_along_axis(inside, back, axis=-1), logits, -np.inf)

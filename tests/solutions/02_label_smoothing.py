import numpy as np


def smoothed(onehot, epsilon):
    """onehot (N,V) -> q (N,V): the smoothed target"""
    return (1 - epsilon) * onehot + epsilon / onehot.shape[-1]


def forward(logits, *, q):
    """logits (N,V), q (N,V): the smoothed target -> loss ()"""
    top = logits.max(axis=-1, keepdims=True)
    s = logits - top
    e = np.exp(s)
    total = e.sum(axis=-1, keepdims=True)
    log_p = s - np.log(total)
    terms = q * log_p
    loss = -terms.sum() / len(logits)
    return loss


def backward(dloss, v):
    """dloss () -> dlogits (N,V). The values of the forward are v.q, v.e, v.total, ...; top may be a constant."""
    # loss = -terms.sum() / len(logits)
    dterms = np.full_like(v.log_p, -dloss / len(v.log_p))
    # terms = q * log_p
    dlog_p = dterms * v.q
    # log_p = s - np.log(total)
    ds = dlog_p
    dtotal = -dlog_p.sum(axis=-1, keepdims=True) / v.total
    # total = e.sum(axis=-1, keepdims=True)
    de = np.broadcast_to(dtotal, v.e.shape)
    # e = np.exp(s)
    ds = ds + de * v.e
    # s = logits - top
    dlogits = ds
    return dlogits


def closed_form(p, q):
    """p (N,V), q (N,V) -> dlogits (N,V), for dloss = 1"""
    return (p - q) / len(p)

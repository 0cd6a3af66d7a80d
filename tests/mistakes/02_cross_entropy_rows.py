import numpy as np


def cross_entropy_forward(logits, targets):
    """logits (*,V), targets (*) int -> loss ()"""
    V = logits.shape[-1]
    flat = logits.reshape(-1, V)
    t = targets.reshape(-1)
    keep = t != -100
    n = max(int(keep.sum()), 1)
    safe = np.where(keep, t, 0)
    shifted = flat - flat.max(axis=1, keepdims=True)
    e = np.exp(shifted)
    p = e / e.sum(axis=1, keepdims=True)
    logp = shifted - np.log(e.sum(axis=1, keepdims=True))
    rows = np.arange(len(t))
    loss = -(logp[rows, safe] * keep).sum() / n
    return loss.astype(logits.dtype), (p, safe, keep, n, logits.shape)


def cross_entropy_backward(dloss, cache):
    """dloss () -> dlogits (*,V)"""
    p, safe, keep, n, shape = cache
    rows = np.arange(len(safe))
    dlogits = p.copy()
    dlogits[rows, safe] -= 1
    dlogits = dlogits * keep[:, None]
    dlogits = dlogits * dloss / n
    return dlogits.reshape(shape).astype(p.dtype)

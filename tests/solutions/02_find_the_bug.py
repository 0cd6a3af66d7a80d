import numpy as np


def cross_entropy_forward(logits, targets, *, weights=None, normalizer=None):
    """logits (*,V), targets (*) int -> loss ()"""
    z, y = logits.reshape(-1, logits.shape[-1]), targets.reshape(-1)
    w = np.ones(len(y)) if weights is None else weights.reshape(-1)
    w = np.where(y == -100, 0, w).astype(z.dtype)
    y, n = np.where(y == -100, 0, y), np.arange(len(y))
    share = (w / (w.sum() if normalizer is None else normalizer)).astype(z.dtype)

    s = z - z.max(axis=-1, keepdims=True)
    e = np.exp(s)
    total = e.sum(axis=-1, keepdims=True)
    loss = (share * (np.log(total[:, 0]) - s[n, y])).sum()
    return loss, (e / total, y, share, logits.shape)


def cross_entropy_backward(dloss, cache):
    """dloss () -> dlogits (*,V)"""
    p, y, share, shape = cache
    n = np.arange(len(y))
    dz = p[n].copy()
    # lse - s[n, y]: the slope of lse is p; the right answer's own entry has 1 less
    dz[n, y] -= 1
    # loss = sum(share * ...)
    dz *= (share * dloss)[:, None]
    return dz.reshape(shape)

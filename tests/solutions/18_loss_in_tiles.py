import tracemalloc

import numpy as np

WIDTH = 2  # tokens of a tile: small, so that a small check crosses every edge


def loss_forward(h, w, targets):
    """h (N,C), w (V,C), targets (N,) int -> loss (), the mean over the positions"""
    n = len(h)
    m = np.full((n, 1), -np.inf, h.dtype)  # the largest logit so far
    z = np.zeros((n, 1), h.dtype)  # the sum of exp(logit - m)
    of_target = np.zeros((n, 1), h.dtype)  # the logit of the target
    for first in range(0, len(w), WIDTH):
        logits = h @ w[first : first + WIDTH].T  # (N, WIDTH), the last tile may be narrower
        larger = np.maximum(m, logits.max(axis=1, keepdims=True))
        z = z * np.exp(m - larger) + np.exp(logits - larger).sum(axis=1, keepdims=True)
        m = larger
        here = (targets >= first) & (targets < first + WIDTH)  # positions whose target is in this tile
        of_target[here, 0] = logits[here, targets[here] - first]
    lse = m + np.log(z)
    if lse is None:
        return None
    return (lse - of_target).mean(), (h, w, targets, lse)


def loss_backward(dloss, cache):
    """dloss () -> dh (N,C), dw (V,C)"""
    h, w, targets, lse = cache
    dh, dw = np.zeros_like(h), np.zeros_like(w)
    for first in range(0, len(w), WIDTH):
        logits = h @ w[first : first + WIDTH].T  # computed again
        here = (targets >= first) & (targets < first + WIDTH)
        dlogits = np.exp(logits - lse)
        if dlogits is None:
            return None
        dlogits[here, targets[here] - first] -= 1
        dlogits *= dloss / len(h)
        dh += dlogits @ w[first : first + WIDTH]
        dw[first : first + WIDTH] = dlogits.T @ h
    return dh, dw


def bytes_in_use(h, w, targets):
    """Given, for the judge: the bytes that both passes have in use at most, beyond what there was before."""
    tracemalloc.start()
    _, cache = loss_forward(h, w, targets)
    loss_backward(1.0, cache)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return peak

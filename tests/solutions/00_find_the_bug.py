import numpy as np

arrays = {}


def array_for(x):
    """The array for results of this shape and type."""
    kind = x.shape, x.dtype
    if kind not in arrays:
        arrays[kind] = np.empty_like(x)
    return arrays[kind]


def softmax_forward(x):
    """x (*,N) -> p (*,N)"""
    p = array_for(x)
    np.exp(x - x.max(axis=-1, keepdims=True), out=p)  # the result is written into p
    np.divide(p, p.sum(axis=-1, keepdims=True), out=p)
    return p.copy(), (p.copy(),)


def softmax_backward(dp, cache):
    """dp (*,N) -> dx (*,N)"""
    (p,) = cache
    average = (p * dp).sum(axis=-1, keepdims=True)
    return p * (dp - average)

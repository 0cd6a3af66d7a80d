import numpy as np


def similarity_forward(h_ab, h_ba, w, b, rows, last):
    """h_ab, h_ba (N,T,C): the states of "a $ b" and of "b $ a"; w (C,K), b (K,) -> scores (N,K)"""
    first = h_ab[rows, last]
    second = h_ba[rows, last]
    states = first + second
    products = states @ w
    scores = products + b
    return scores


def scattered(d, h, rows, last):
    """Zeros like h, and the gradient of h[rows, last] at the places that were read"""
    dh = np.zeros_like(h)
    dh[rows, last] = d
    return dh


def similarity_backward(dout, v):
    """dout (N,K) -> dh_ab (N,T,C), dh_ba (N,T,C), dw (C,K), db (K,)"""
    # scores = products + b
    dproducts = dout
    db = dout.sum(axis=0)
    # products = states @ w
    dstates = dproducts @ v.w.T
    dw = v.states.T @ dproducts
    # states = first + second
    dfirst = dstates
    dsecond = dstates
    # second = h_ba[rows, last]
    dh_ba = scattered(dsecond, v.h_ba, v.rows, v.last)
    # first = h_ab[rows, last]
    dh_ab = scattered(dfirst, v.h_ab, v.rows, v.last)
    return dh_ab, dh_ba, dw, db


def score_forward(scores, rows, low, share):
    """scores (N,6) -> nats (N,). The target is `share` (N,) of class `low` (N,) and 1 - share of class low + 1"""
    e = np.exp(scores)
    total = e.sum(axis=-1, keepdims=True)
    log_p = scores - np.log(total)
    at_low = log_p[rows, low]
    at_high = log_p[rows, low + 1]
    nats = -(share * at_low + (1 - share) * at_high)
    return nats


def target_of(v):
    """The distribution over six classes"""
    target = np.zeros_like(v.scores)
    target[v.rows, v.low] = v.share
    target[v.rows, v.low + 1] = 1 - v.share
    return target


def score_backward(dout, v):
    """dout (N,) -> dscores (N,6), in two lines: what the lesson calls "p minus one-hot", with another target"""
    target = target_of(v)
    dscores = dout[:, None] * (v.e / v.total - target)
    return (dscores,)

import numpy as np


def by_rank(order, apart):
    """(T,T): does the column's word come at least `apart` steps before the row's?"""
    rank = order.argsort()
    return rank + apart <= rank[:, None]


def left(t):
    """GPT: each word sees itself and all on its left"""
    return np.tri(t, dtype=bool)


def right(t):
    """The second direction of ELMo: itself and all on its right"""
    return np.tri(t, dtype=bool).T


def drawn(order):
    """XLNet's content stream: itself and all that come before it in this order. order (T,): the words, first to last"""
    return by_rank(order, 0)


def query(order):
    """XLNet's query stream: all that come before it, without itself"""
    return by_rank(order, 1)


def prefix(t, n):
    """The prefix model: the first n words see each other, each later word sees the left"""
    return np.tri(t, dtype=bool) | (np.arange(t) < n)

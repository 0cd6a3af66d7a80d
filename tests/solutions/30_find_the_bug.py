import numpy as np

K = 4  # distances from -4 to 4; what is farther is taken for these


def where(t):
    """(T,T) int: the row of the table for the distance of each query and key"""
    distance = np.arange(t) - np.arange(t)[:, None]
    return np.clip(distance, -K, K) + K


def bias_forward(scores, table):
    """scores (T,T), table (2 K + 1,) -> scores and a number for each distance (T,T)"""
    return scores + table[where(len(scores))], (len(scores), len(table))


def bias_backward(dout, cache):
    """dout (T,T) -> dscores (T,T), dtable (2 K + 1,)"""
    t, n_rows = cache
    dtable = np.zeros(n_rows, dout.dtype)
    np.add.at(dtable, where(t), dout)
    return dout, dtable

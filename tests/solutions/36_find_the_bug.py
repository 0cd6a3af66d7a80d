import numpy as np


def seen(t, n_past, window):
    """(T,S) boolean, S = n_past + T: may query i, at place n_past + i, see the key of a column?"""
    query = n_past + np.arange(t)[:, None]
    key = np.arange(n_past + t)
    return (key <= query) & (query - key < window)

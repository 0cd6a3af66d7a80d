import numpy as np


def ranks(order, n):
    """order (B,T) int: when each word comes, from 0 -> rank (B,T): 0 for what is given, 1 to n for what is predicted"""
    t = order.shape[1]
    return np.maximum(order - (t - n) + 1, 0)


def query_mask(rank):
    """rank (B,T) -> (B,T,T) boolean: may the row's word see the column's, without its own?"""
    return rank[:, None, :] < rank[:, :, None]

import numpy as np

from minigpt import ops


def forward(table, widen, ids, targets):
    """table (V,E), widen (E,C), ids (B,T) int, targets (B,T) int -> loss ()"""
    e, looked_up = ops.embedding_forward(table, ids)
    x = e @ widen
    h = x + np.tanh(x)
    back = h @ widen.T
    scores = back @ table.T
    loss, of_loss = ops.cross_entropy_forward(scores, targets)
    return loss


def backward(dloss, v):
    """dloss () -> dtable (V,E), dwiden (E,C). v: the values of the forward pass, v.table, v.e, v.x, ..."""
    # loss = cross_entropy(scores, targets)
    dscores = ops.cross_entropy_backward(dloss, v.of_loss)
    # back @ table.T: the first part of dtable
    dback = dscores @ v.table
    dtable = np.einsum("btv,bte->ve", dscores, v.back)
    # h @ widen.T: the first part of dwiden
    dh = dback @ v.widen
    dwiden = np.einsum("btc,bte->ec", v.h, dback)
    # x + tanh(x)
    dx = dh + dh * (1 - np.tanh(v.x) ** 2)
    # e @ widen: the second part of dwiden
    de = dx @ v.widen.T
    dwiden = dwiden + np.einsum("bte,btc->ec", v.e, dx)
    # table[ids]: the second part of dtable
    dtable = dtable + ops.embedding_backward(de, v.looked_up)
    return dtable, dwiden

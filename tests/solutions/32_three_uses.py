import numpy as np

from minigpt import ops


def scattered(d, ids, table):
    """The gradient of table[ids]: rows of the table that are used several times get the sum."""
    dtable = np.zeros_like(table)
    np.add.at(dtable, ids, d)
    return dtable


def model_forward(table, source, ids, targets):
    """table (V,C), source (S,) int, ids (T,) int, targets (T,) int -> out (), the loss"""
    states = table[source]
    x = table[ids]
    s = x @ states.T
    p, soft = ops.softmax_forward(s)
    read = p @ states
    h = x + read
    z = h @ table.T
    out, ce = ops.cross_entropy_forward(z, targets)
    return out


def model_backward(dout, v):
    # out = cross_entropy(z, targets)
    dz = ops.cross_entropy_backward(dout, v.ce)
    # z = h @ table.T
    dh = dz @ v.table
    dtable = dz.T @ v.h
    # h = x + read
    dread = dh
    # read = p @ states: the states as values
    dp = dread @ v.states.T
    dstates = v.p.T @ dread
    # p = softmax(s)
    ds = ops.softmax_backward(dp, v.soft)
    # s = x @ states.T: the states as keys
    dstates = dstates + ds.T @ v.x
    dx = dh + ds @ v.states
    # x = table[ids] and states = table[source]
    dtable = dtable + scattered(dx, v.ids, v.table) + scattered(dstates, v.source, v.table)
    return dtable

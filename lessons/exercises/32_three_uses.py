"""Exercise 32: one table, three uses (lesson 32).

MASS, BART and T5 have one table of tokens: its rows are the source's, the decoder's, and it is the head too. Here is
the smallest such model: the decoder's rows are queries, the source's rows are keys and values, and what is read is
compared with every row of the table. Write the backward pass. The table is used three times, and so are its gradients'
parts; the source's rows are used twice. Replace every `...`.

Judge it:  python lessons/exercises/32_three_uses.py
"""

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
    dh = ...  # your turn: (T,C)
    dtable = ...  # your turn: (V,C), of the use as head
    # h = x + read
    dread = ...  # your turn: (T,C)
    # read = p @ states: the states as values
    dp = ...  # your turn: (T,S)
    dstates = ...  # your turn: (S,C), of this use
    # p = softmax(s)
    ds = ...  # your turn: (T,S); ops has it
    # s = x @ states.T: the states as keys
    dstates = ...  # your turn: (S,C), both uses
    dx = ...  # your turn: (T,C); x is used twice
    # x = table[ids] and states = table[source]
    dtable = ...  # your turn: (V,C), all three uses
    return dtable


# --- the judge: nothing below is yours --------------------------------------------------------------------------------


if __name__ == "__main__":
    from minigpt.learn import lines

    V, C = 7, 4
    rng = np.random.default_rng(0)
    source, ids, targets = np.array([3, 5, 3, 1, 6]), np.array([0, 5, 2]), np.array([5, 2, 3])
    results = lines.check(model_forward, model_backward, rng.normal(size=(V, C)), source, ids, targets)
    raise SystemExit(lines.exit_status(results))

"""Exercise 08: a tied table in two factors, backward.

A quarter of GPT-1's parameters is its token table, 40,478 x 768. ALBERT (Lan et al. 2020) replaces such a table by a
product: table (V,E) widen (E,C), with E = 128 the 5.3 million parameters instead of 31.1. Both factors are tied: they
make the vectors at the bottom and the scores at the top. So each of them is used twice, and each has a gradient with
two parts. The forward pass stands below, with a tanh in the place of the blocks. Write the backward pass; the first
wrong line will be named. (Lesson 08, sections 3 and 4.)

Judge it:  python lessons/exercises/08_factored_table.py
"""

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
    dback = ...  # your turn
    dtable = ...  # your turn
    # h @ widen.T: the first part of dwiden
    dh = ...  # your turn
    dwiden = ...  # your turn
    # x + tanh(x)
    dx = ...  # your turn
    # e @ widen: the second part of dwiden
    de = ...  # your turn
    ...  # your turn: dwiden = dwiden + ...
    # table[ids]: the second part of dtable
    ...  # your turn: dtable = dtable + ...
    return dtable, dwiden


# --- the judge: nothing below is yours --------------------------------------------------------------------------------


if __name__ == "__main__":
    from minigpt.learn import lines

    rng = np.random.default_rng(0)
    ids, targets = rng.integers(0, 7, size=(2, 2, 5))  # 10 tokens of 7: some are read twice
    results = lines.check(forward, backward, rng.normal(size=(7, 3)), rng.normal(size=(3, 4)), ids, targets)
    raise SystemExit(lines.exit_status(results))

"""Exercise 28: the cosine loss of DistilBERT, backward, line by line (lesson 28).

The last states of student (a) and teacher (b) shall point in the same direction; how long they are does not count. The
forward pass stands below, one operation a line. Write the backward pass. The new piece: a is used twice, in the product
and in its own length. When all is right, multiply da with a, row by row: what is the sum, and why? Replace every `...`.

Judge it:  python lessons/exercises/28_cosine_loss.py
"""

import numpy as np


def cosine_forward(a, b):
    """a (N,C), b (N,C) -> out (), the mean of 1 - cos(a, b) over the rows"""
    product = (a * b).sum(axis=1, keepdims=True)
    a_length = np.sqrt((a**2).sum(axis=1, keepdims=True))
    b_length = np.sqrt((b**2).sum(axis=1, keepdims=True))
    cosine = product / (a_length * b_length)
    out = (1 - cosine).mean()
    return out


def cosine_backward(dout, v):
    # out = (1 - cosine).mean()
    dcosine = ...  # your turn: (N,1)
    # cosine = product / (a_length * b_length)
    dproduct = ...  # your turn: (N,1)
    da_length = ...  # your turn: (N,1)
    db_length = ...  # your turn: (N,1)
    # b_length = np.sqrt((b**2).sum(axis=1, keepdims=True))
    db = ...  # your turn: (N,C)
    # a_length = np.sqrt((a**2).sum(axis=1, keepdims=True))
    da = ...  # your turn: (N,C)
    # product = (a * b).sum(axis=1, keepdims=True): the second use of a and of b
    da = ...  # your turn: (N,C), with what stands in da already
    db = ...  # your turn: (N,C), with what stands in db already
    return da, db


# --- the judge: nothing below is yours --------------------------------------------------------------------------------


if __name__ == "__main__":
    from minigpt.learn import lines

    N, C = 5, 3
    rng = np.random.default_rng(0)
    results = lines.check(cosine_forward, cosine_backward, rng.normal(size=(N, C)), rng.normal(size=(N, C)))
    raise SystemExit(lines.exit_status(results))

"""Exercise 00: the backward of softmax, line by line.

Softmax turns the scores of a row into probabilities: p[i] = exp(x[i]) / sum_j exp(x[j]). Its forward stands below in
four lines. Write the backward: one or two lines for each, in reverse order, as in sections 2 and 3 of lesson 00. You
need the slopes of a/b and of exp, and two thoughts: what touches the output by two roads hears from both, and what
touches many outputs hears from all of them.

Judge it:  minigpt check lessons/exercises/00_softmax.py
"""

import numpy as np


def softmax_forward(x):
    """x (*,N) -> p (*,N)"""
    m = x.max(axis=-1, keepdims=True)
    e = np.exp(x - m)
    z = e.sum(axis=-1, keepdims=True)
    p = e / z
    return p, (e, z)


def softmax_backward(dp, cache):
    """dp (*,N) -> dx (*,N)"""
    e, z = cache
    # p = e / z
    ...  # your turn: de (*,N), and dz (*,1): one z touches a whole row of p
    # z = e.sum(axis=-1, keepdims=True)
    ...  # your turn: e was used twice, so something is added to de
    # e = np.exp(x - m), where m may be taken for a constant: add a constant to a row of x, and p stays as it is
    ...  # your turn: dx (*,N)
    return None  # your turn: return dx


if __name__ == "__main__":
    from minigpt.learn.check_file import main

    raise SystemExit(main(__file__))

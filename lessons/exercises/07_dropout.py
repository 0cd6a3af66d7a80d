"""Exercise 07: dropout that remembers nothing but its key.

out = x * keep / (1 - rate), where keep is 1 with probability 1 - rate: `keep_mask(key, rate, x.shape, np)` gives
it, and the same one at every call. key=None is evaluation: then out is x. (Lesson 07, sections 2 and 3.)

Judge it:  minigpt check lessons/exercises/07_dropout.py
"""

import numpy as np  # noqa: F401 (yours to use)

from minigpt.ops.random_keys import keep_mask  # noqa: F401


def dropout_forward(x, *, rate, key):
    """x (*) -> out (*)"""
    out = ...  # your turn, for a key and for None
    return out, (rate, key)  # no array: that is the whole point


def dropout_backward(dout, cache):
    """dout (*) -> dx (*)"""
    rate, key = cache
    # out = x * keep / (1 - rate), and out = x in evaluation
    dx = ...  # your turn: the same coins again
    return dx


if __name__ == "__main__":
    from minigpt.learn.check_file import main

    raise SystemExit(main(__file__))

"""Exercise 01: the backwards of linear and embedding, for any number of leading axes (lesson 01, section 4).

The embedding without `np.add.at`: think of one-hot rows, or sort the ids and add up what belongs together. And without
a loop over ids: a batch has thousands.

Judge it:  minigpt check lessons/exercises/01_linear_and_embedding.py
"""

import numpy as np


def linear_forward(x, w, b=None):
    """x (*,I), w (I,O), b (O,) -> out (*,O)"""
    rows = x.reshape(-1, x.shape[-1])
    out = rows @ w
    if b is not None:
        out = out + b
    return out.reshape(*x.shape[:-1], w.shape[1]), (x, w, b)


def linear_backward(dout, cache):
    """dout (*,O) -> dx (*,I), dw (I,O), db (O,), and None for db where there was no b"""
    x, w, b = cache
    # out = out + b
    ...  # your turn: db
    # out = rows @ w
    ...  # your turn: dw, dx
    return None  # your turn: return dx, dw, db


def embedding_forward(w, ids):
    """w (V,C), ids (*) int -> out (*,C)"""
    return np.take(w, ids, axis=0), (w, ids)


def embedding_backward(dout, cache):
    """dout (*,C) -> dw (V,C)"""
    w, ids = cache
    # out = w[ids]: a row hears from every place that it was copied to
    ...  # your turn: dw
    return None  # your turn: return dw


if __name__ == "__main__":
    from minigpt.learn.check_file import main

    raise SystemExit(main(__file__))

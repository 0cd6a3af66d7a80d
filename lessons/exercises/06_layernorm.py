"""Exercise 06: LayerNorm and its backward (lesson 06).

Replace what is marked "your turn". Then let the library's own tests judge you:

    minigpt check lessons/exercises/06_layernorm.py
"""

import numpy as np


def layernorm_forward(x, g, b, *, eps=1e-5):
    """x (*,C), g (C,), b (C,) -> out (*,C)

    out = g x_hat + b,   x_hat = (x - mean) / sqrt(var + eps),   mean and (biased) variance over the last axis.
    """
    x_mean = x - np.mean(x, axis=-1, keepdims=True)
    rstd = None  # your turn
    x_hat = None  # your turn
    out = None  # your turn
    return out, (x_mean, x_hat, rstd, g)


def layernorm_backward(dout, cache):
    """dout (*,C) -> dx (*,C), dg (C,), db (C,)

    First line by line, as in section 3 of the lesson. When every check is happy, try the closed form: three lines.
    """
    x_mean, x_hat, rstd, g = cache
    rows = tuple(range(dout.ndim - 1))  # all axes but the last
    # out = g * x_hat + b
    db = dout.sum(axis=rows)
    dg = None  # your turn
    ...  # your turn: dx_hat
    # x_hat = x_mean * rstd, and rstd = 1 / sqrt(mean(x_mean * x_mean) + eps)
    ...  # your turn: the gradient of x_mean: its direct part, and its part through rstd
    # x_mean = x - mean(x)
    dx = None  # your turn
    return dx, dg, db


# --- the judge: nothing below is yours --------------------------------------------------------------------------------


if __name__ == "__main__":
    from minigpt.learn.judging.check_file import main

    raise SystemExit(main(__file__))

"""Exercise 06: find the bug (lesson 06).

This LayerNorm passes every check that is made where training starts. One line is wrong. Find out which gradient it is,
why a check at the start does not show it, and what would become of a model that is trained with it.

    minigpt check lessons/exercises/06_find_the_bug.py
"""

import numpy as np


def layernorm_forward(x, g, b, *, eps=1e-5):
    """x (*,C), g (C,), b (C,) -> out (*,C)"""
    x_mean = x - np.mean(x, axis=-1, keepdims=True)
    var = np.mean(x_mean * x_mean, axis=-1, keepdims=True)
    rstd = 1 / np.sqrt(var + eps)
    x_hat = x_mean * rstd
    out = g * x_hat + b
    return out, (out, x_hat, rstd, g)


def layernorm_backward(dout, cache):
    """dout (*,C) -> dx (*,C), dg (C,), db (C,)"""
    out, x_hat, rstd, g = cache
    rows = tuple(range(dout.ndim - 1))
    # out = g * x_hat + b
    dg = (dout * out).sum(axis=rows)
    db = dout.sum(axis=rows)
    dx_hat = dout * g
    # x_hat = x_mean * rstd
    shift = dx_hat.mean(axis=-1, keepdims=True)
    stretch = (dx_hat * x_hat).mean(axis=-1, keepdims=True)
    dx = rstd * (dx_hat - shift - x_hat * stretch)
    return dx, dg, db


# --- the judge: nothing below is yours --------------------------------------------------------------------------------


if __name__ == "__main__":
    from minigpt.learn.judging.check_file import main

    raise SystemExit(main(__file__))

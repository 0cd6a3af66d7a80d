"""Exercise 05: find the bug (lesson 05).

An MLP written out in one piece. Its forward is right. In its backward every shape is right too, and nothing crashes: a
model would even learn a little with it. Which gradients are wrong, and which are right? What do the wrong ones have in
common? Change one line, and let the library's own tests judge you:

    minigpt check lessons/exercises/05_find_the_bug.py
"""

import math

import numpy as np

C = math.sqrt(2 / math.pi)
A = 0.044715


def mlp_forward(x, w1, b1, w2, b2, *, grad=True):
    """x (*,C), w1 (C,F), b1 (F,), w2 (F,C), b2 (C,) -> out (*,C)"""
    rows = x.reshape(-1, x.shape[-1])
    f = rows @ w1 + b1
    t = np.tanh(C * (f + A * f * f * f))
    a = 0.5 * f * (1 + t)
    out = a @ w2 + b2
    return out.reshape(x.shape), (x, w1, w2, f, t, a)


def mlp_backward(dout, cache):
    """dout (*,C) -> dx (*,C), dw1 (C,F), db1 (F,), dw2 (F,C), db2 (C,)"""
    x, w1, w2, f, t, a = cache
    rows, dout = x.reshape(-1, x.shape[-1]), dout.reshape(-1, dout.shape[-1])
    # out = a @ w2 + b2
    da = dout @ w2.T
    dw2 = a.T @ dout
    db2 = dout.sum(axis=0)
    # a = gelu(f)
    slope = 0.5 * (1 + t) + 0.5 * a * (1 - t * t) * C * (1 + 3 * A * a * a)
    df = da * slope
    # f = rows @ w1 + b1
    dx = df @ w1.T
    dw1 = rows.T @ df
    db1 = df.sum(axis=0)
    return dx.reshape(x.shape), dw1, db1, dw2, db2


# --- the judge: nothing below is yours --------------------------------------------------------------------------------


if __name__ == "__main__":
    from minigpt.learn.judging.check_file import main

    raise SystemExit(main(__file__))

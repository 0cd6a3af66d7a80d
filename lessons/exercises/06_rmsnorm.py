"""Exercise 06: the backward of RMSNorm (lesson 06).

RMSNorm (Zhang and Sennrich 2019, arXiv 1910.07467, equation 4) divides a row by its root mean square. It does not
subtract the mean, and it has no bias:

    rms = sqrt(mean over the C channels of x^2 + eps),      out = g x / rms

The forward is there, one operation a line. Replace what is marked "your turn": the backward, one line for each line
that it undoes. At the end, collapse dx on paper to one line, as in section 4 of the lesson. Run this file to see how
far you are:

    python lessons/exercises/06_rmsnorm.py
"""

import numpy as np


def forward(x, g, *, eps):
    """x (T,C), g (C,) -> out (T,C)"""
    square = x * x
    mean_square = square.mean(axis=-1, keepdims=True)
    rms = np.sqrt(mean_square + eps)
    rrms = 1 / rms
    x_hat = x * rrms
    out = g * x_hat
    return out


def backward(dout, v):
    """dout (T,C) -> dx (T,C), dg (C,). The values of the forward are v.x, v.g, v.rms, v.x_hat, ..."""
    # out = g * x_hat
    dg = None  # your turn, (C,)
    dx_hat = None  # your turn, (T,C)
    # x_hat = x * rrms
    dx = None  # your turn, (T,C): the direct part
    drrms = None  # your turn, (T,1): one rrms serves a whole row
    # rrms = 1 / rms
    drms = None  # your turn, (T,1)
    # rms = np.sqrt(mean_square + eps)
    dmean_square = None  # your turn, (T,1)
    # mean_square = square.mean(axis=-1, keepdims=True)
    dsquare = None  # your turn, (T,C)
    # square = x * x
    dx = None  # your turn: what there was, and what comes through square
    return dx, dg


def closed_form(dx_hat, x_hat, rrms):
    """dx_hat (T,C), x_hat (T,C), rrms (T,1) -> dx (T,C)"""
    return None  # your turn: one line


# --- the judge: nothing below is yours --------------------------------------------------------------------------------


X = np.array([[1.0, 2.0, 4.0, 8.0], [-3.0, 0.5, 0.0, 1.5]])
G = np.array([1.0, 0.5, 2.0, -1.0])
EPS = 1e-5


def main() -> int:
    """Judge both, one after the other; the exit status."""
    from minigpt import gradcheck
    from minigpt.learn import lines

    v = lines.run(forward, X, G, eps=EPS)
    if lines.exit_status(lines.check(forward, backward, X, G, eps=EPS)):
        return 1
    dout = np.random.default_rng(1).normal(size=X.shape)
    dx = closed_form(dout * G, v.x_hat, v.rrms)
    if dx is None:
        print("closed_form returns nothing yet: your turn")
        return 1
    true = gradcheck.numeric(lambda moved: forward(moved, G, eps=EPS), X, dout)
    same = np.shape(dx) == X.shape and np.allclose(dx, true, rtol=0, atol=1e-7)
    print(f"closed form: {'the same as your lines: solved' if same else 'not the same as your lines'}")
    return 0 if same else 1


if __name__ == "__main__":
    raise SystemExit(main())

"""Exercise 01: one matrix, used twice.

An autoencoder squeezes a row of I numbers into O numbers and then restores it. Here both ways use the *same* matrix w:
`x @ w` on the way in, `… @ w.T` on the way out. The forward pass stands below, one operation a line. Write the backward
pass with what lesson 01 derived for a product, and with the rule of two paths. Watch the shapes: one of the two parts
of dw comes out transposed. No loop is needed. Replace every `...`.

Judge it:  python lessons/exercises/01_tied_weights.py
"""

import numpy as np


def autoencoder_forward(x, w, b, c):
    """x (N,I), w (I,O), b (O,), c (I,) -> out (N,I)"""
    inner = x @ w
    shifted = inner + b
    code = np.tanh(shifted)
    restored = code @ w.T
    out = restored + c
    return out


def autoencoder_backward(dout, v):
    # out = restored + c
    drestored = ...  # your turn: (N,I)
    dc = ...  # your turn: (I,)
    # restored = code @ w.T
    dcode = ...  # your turn: (N,O)
    dw = ...  # your turn: (I,O), from this use of w
    # code = np.tanh(shifted), whose derivative is 1 - tanh(shifted)²
    dshifted = ...  # your turn: (N,O)
    # shifted = inner + b
    dinner = ...  # your turn: (N,O)
    db = ...  # your turn: (O,)
    # inner = x @ w
    dx = ...  # your turn: (N,I)
    dw = ...  # your turn: (I,O), w is used twice
    return dx, dw, db, dc


# --- the judge: nothing below is yours --------------------------------------------------------------------------------


if __name__ == "__main__":
    from minigpt.learn import lines

    N, I, O = 5, 4, 3
    normal = np.random.default_rng(0).normal
    arguments = normal(size=(N, I)), normal(size=(I, O)), normal(size=O), normal(size=I)
    results = lines.check(autoencoder_forward, autoencoder_backward, *arguments)
    raise SystemExit(lines.exit_status(results))

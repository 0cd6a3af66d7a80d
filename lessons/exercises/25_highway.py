"""Exercise 25: the backward of a highway layer, line by line (lesson 25, section 10).

ELMo makes a word's first vector from its characters. On the way stand two highway layers (Srivastava, Greff and
Schmidhuber 2015). A gate t, between 0 and 1, decides for each number how much of the new value comes through, and how
much of the input stays:

    t = sigmoid(x w_t + b_t),   out = t relu(x w + b) + (1 - t) x

The forward pass stands below, one operation a line. Write the backward pass. The input x is used three times, the gate
twice. Replace every `...`.

Judge it:  python lessons/exercises/25_highway.py
"""

import numpy as np


def highway_forward(x, w, b, w_t, b_t):
    """x (N,C), w, w_t (C,C), b, b_t (C,) -> out (N,C)"""
    z = x @ w + b
    new = np.maximum(z, 0)
    z_t = x @ w_t + b_t
    t = 1 / (1 + np.exp(-z_t))
    out = t * new + (1 - t) * x
    return out


def highway_backward(dout, v):
    # out = t * new + (1 - t) * x
    dt = ...  # your turn: (N,C), two parts
    dnew = ...  # your turn: (N,C)
    dx = ...  # your turn: (N,C), the first of three parts
    # t = 1 / (1 + np.exp(-z_t))
    dz_t = ...  # your turn: (N,C)
    # z_t = x @ w_t + b_t
    dw_t = ...  # your turn: (C,C)
    db_t = ...  # your turn: (C,)
    dx = ...  # your turn: what there was, and the second part
    # new = np.maximum(z, 0)
    dz = ...  # your turn: (N,C)
    # z = x @ w + b
    dw = ...  # your turn: (C,C)
    db = ...  # your turn: (C,)
    dx = ...  # your turn: what there was, and the third part
    return dx, dw, db, dw_t, db_t


# --- the judge: nothing below is yours --------------------------------------------------------------------------------


if __name__ == "__main__":
    from minigpt.learn import lines

    N, C = 5, 3
    rng = np.random.default_rng(0)
    arrays = [rng.normal(size=shape) for shape in ((N, C), (C, C), C, (C, C), C)]
    results = lines.check(highway_forward, highway_backward, *arrays)
    raise SystemExit(lines.exit_status(results))

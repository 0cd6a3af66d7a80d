"""Exercise 00: the backward of a gate, line by line.

A gate mixes two rows of numbers: out = a x + (1 - a) y, with one number a between 0 and 1 for each row. It is
a = 1 / (1 + exp(-s)), where s is a score that a model has computed. (Highway networks and gated recurrent networks
are built from it.) The forward pass stands below, one operation a line. Write the backward pass with the rules of
lesson 00: upstream gradient times local gradient; a value that is used several times gets the sum; `dv` has the shape
of `v`. Replace every `...`.

Judge it:  python lessons/exercises/00_gate.py
"""

import numpy as np


def gate_forward(s, x, y):
    """s (T,1), x (T,C), y (T,C) -> out (T,C)"""
    e = np.exp(-s)
    n = 1 + e
    a = 1 / n
    kept = a * x
    b = 1 - a
    new = b * y
    out = kept + new
    return out


def gate_backward(dout, v):
    # out = kept + new
    dkept = ...  # your turn: (T,C)
    dnew = ...  # your turn: (T,C)
    # new = b * y
    dy = ...  # your turn: (T,C)
    db = ...  # your turn: (T,1); one b multiplies a whole row of y
    # b = 1 - a
    da = ...  # your turn: (T,1), from this use of a
    # kept = a * x
    dx = ...  # your turn: (T,C)
    da = ...  # your turn: (T,1), a is used twice
    # a = 1 / n
    dn = ...  # your turn: (T,1)
    # n = 1 + e
    de = ...  # your turn: (T,1)
    # e = np.exp(-s)
    ds = ...  # your turn: (T,1)
    return ds, dx, dy


# --- the judge: nothing below is yours --------------------------------------------------------------------------------


if __name__ == "__main__":
    from minigpt.learn import lines

    T, C = 3, 4
    rng = np.random.default_rng(0)
    results = lines.check(gate_forward, gate_backward, rng.normal(size=(T, 1)), *rng.normal(size=(2, T, C)))
    raise SystemExit(lines.exit_status(results))

"""Exercise 05: the backward of SwiGLU (lesson 05).

Many models after GPT-2 have an MLP with a gate (Shazeer 2020, arXiv 2002.05202). It has three matrices and no biases:

    gate = x w_gate,   up = x w_up,   out = (swish(gate) * up) w_down,   swish(z) = z sigmoid(z)

Swish is a relative of GELU: z times a smooth switch. Its switch is the logistic function, sigmoid(z) = 1 / (1 + e^-z).
The forward is there. Replace what is marked "your turn", from the top: each gradient stands under the forward line that
it undoes. Run this file to see which line is the first wrong one:

    python lessons/exercises/05_swiglu.py
"""

import numpy as np


def forward(x, w_gate, w_up, w_down):
    """x (N,C), w_gate (C,F), w_up (C,F), w_down (F,C) -> out (N,C)"""
    gate = x @ w_gate
    up = x @ w_up
    sigma = 1 / (1 + np.exp(-gate))
    swish = gate * sigma
    product = swish * up
    out = product @ w_down
    return out


def backward(dout, v):
    """dout (N,C) -> dx (N,C), dw_gate (C,F), dw_up (C,F), dw_down (F,C). The forward's values are v.gate, v.up, ..."""
    # out = product @ w_down
    dproduct = None  # your turn, (N,F)
    dw_down = None  # your turn
    # product = swish * up
    dswish = None  # your turn
    dup = None  # your turn
    # swish = gate * sigma
    dgate = None  # your turn: the part in which gate is a factor
    dsigma = None  # your turn
    # sigma = 1 / (1 + np.exp(-gate))
    dgate = None  # your turn: what there was, and what comes through sigma; its slope can be computed from sigma alone
    # up = x @ w_up
    dx = None  # your turn: the first of two parts
    dw_up = None  # your turn
    # gate = x @ w_gate
    dx = None  # your turn: what there was, and the second part
    dw_gate = None  # your turn
    return dx, dw_gate, dw_up, dw_down


# --- the judge: nothing below is yours --------------------------------------------------------------------------------


def main() -> int:
    """Judge every line; the exit status."""
    from minigpt.learn import lines

    rng = np.random.default_rng(5)
    n, c, f = 3, 4, 5
    x, w_gate, w_up = rng.normal(size=(n, c)), rng.normal(size=(c, f)), rng.normal(size=(c, f))
    w_down = rng.normal(size=(f, c))
    lines.run(forward, x, w_gate, w_up, w_down)
    results = lines.check(forward, backward, x, w_gate, w_up, w_down)
    status = lines.exit_status(results)
    print("not solved yet" if status else "solved: every line is right")
    return status


if __name__ == "__main__":
    raise SystemExit(main())

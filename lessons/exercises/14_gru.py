"""Exercise 14: the backward of a GRU, the LSTM's younger relative (lesson 14, section 10).

The gated recurrent unit (Cho et al. 2014) has no second vector c: one gate z decides how much of h stays, another gate
r how much of h is shown to the new content n:

    z = sigmoid(x w_z + h u_z),   r = sigmoid(x w_r + h u_r),   n = tanh(x w_n + (r h) u_n),   out = (1 - z) n + z h

The forward of one step is there. Replace what is marked "your turn", from the top: each gradient stands under the
forward line that it undoes. h is used in four places; its gradient grows from the top to the bottom. Run this file to
see which line is the first wrong one:

    python lessons/exercises/14_gru.py
"""

import numpy as np


def forward(x, h, w_z, u_z, w_r, u_r, w_n, u_n):
    """x (B,I), h (B,H), w_* (I,H), u_* (H,H) -> out (B,H)"""
    z = 1 / (1 + np.exp(-(x @ w_z + h @ u_z)))
    r = 1 / (1 + np.exp(-(x @ w_r + h @ u_r)))
    shown = r * h
    n = np.tanh(x @ w_n + shown @ u_n)
    out = (1 - z) * n + z * h
    return out


def backward(dout, v):
    """dout (B,H) -> dx, dh, dw_z, du_z, dw_r, du_r, dw_n, du_n. The forward's values are v.z, v.r, ..."""
    # out = (1 - z) * n + z * h
    dn = None  # your turn
    dz = None  # your turn
    dh = None  # your turn: the first of four parts
    # n = np.tanh(x @ w_n + shown @ u_n): begin with the gradient of what stands in the brackets
    inner = None  # your turn, (B,H)
    dx = None  # your turn: the first of three parts
    dw_n = None  # your turn
    dshown = None  # your turn
    du_n = None  # your turn
    # shown = r * h
    dr = None  # your turn
    dh = None  # your turn: what there was, and the second part
    # r = sigmoid(x @ w_r + h @ u_r)
    inner = None  # your turn
    dx = None  # your turn
    dh = None  # your turn: the third part
    dw_r = None  # your turn
    du_r = None  # your turn
    # z = sigmoid(x @ w_z + h @ u_z)
    inner = None  # your turn
    dx = None  # your turn
    dh = None  # your turn: the fourth part
    dw_z = None  # your turn
    du_z = None  # your turn
    return dx, dh, dw_z, du_z, dw_r, du_r, dw_n, du_n


# --- the judge: nothing below is yours --------------------------------------------------------------------------------


def main() -> int:
    """Judge every line; the exit status."""
    from minigpt.learn import lines

    rng = np.random.default_rng(14)
    b, i, h = 2, 3, 4
    shapes = ((b, i), (b, h), (i, h), (h, h), (i, h), (h, h), (i, h), (h, h))
    arrays = [rng.normal(size=shape) for shape in shapes]
    lines.run(forward, *arrays)
    status = lines.exit_status(lines.check(forward, backward, *arrays))
    print("not solved yet" if status else "solved: every line is right")
    return status


if __name__ == "__main__":
    raise SystemExit(main())

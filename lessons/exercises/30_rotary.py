"""Exercise 30: rotary positions (Su et al. 2021), forward and backward, line by line.

Later models have no table of positions and no bias. They turn each pair of numbers of a query, and of a key, by an
angle that grows with the place: place t turns by t times a frequency. A product of a turned query and a turned key then
depends on the difference of their angles, and so on the distance alone. Here every query has one pair, (x, y), and one
frequency. Write the backward pass. Which turn undoes a turn? Replace every `...`.

Judge it:  python lessons/exercises/30_rotary.py
"""

import numpy as np


def rotary_forward(x, y, kx, ky, angle):
    """x, y (T,): the queries; kx, ky (T,): the keys; angle (T,), of each place -> out (T,T), the scores"""
    c = np.cos(angle)
    s = np.sin(angle)
    qx = x * c - y * s
    qy = x * s + y * c
    px = kx * c - ky * s
    py = kx * s + ky * c
    out = np.outer(qx, px) + np.outer(qy, py)
    return out


def rotary_backward(dout, v):
    # out = np.outer(qx, px) + np.outer(qy, py)
    dqx = ...  # your turn: (T,)
    dqy = ...  # your turn: (T,)
    dpx = ...  # your turn: (T,)
    dpy = ...  # your turn: (T,)
    # px = kx * c - ky * s and py = kx * s + ky * c: each of kx, ky is used twice
    dkx = ...  # your turn: (T,)
    dky = ...  # your turn: (T,)
    # qx = x * c - y * s and qy = x * s + y * c
    dx = ...  # your turn: (T,)
    dy = ...  # your turn: (T,)
    return dx, dy, dkx, dky


# --- the judge: nothing below is yours --------------------------------------------------------------------------------


if __name__ == "__main__":
    from minigpt.learn import lines

    T = 4
    rng = np.random.default_rng(0)
    places = np.arange(T)  # whole numbers, so no gradient is wanted for them
    results = lines.check(rotary_forward, rotary_backward, *rng.normal(size=(4, T)), places)
    raise SystemExit(lines.exit_status(results))

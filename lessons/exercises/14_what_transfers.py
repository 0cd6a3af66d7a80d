"""Exercise 14: a cell backward in time, and two ways to read a table (lesson 14, sections 2 to 5).

Four functions of one to six lines. A state that is read twice has a gradient that is a sum of two.

Judge it:  python lessons/exercises/14_what_transfers.py
"""

import numpy as np


def cell_backward(dh, dc_next, i, f, g, o, c_before, c):
    """All (H,): c = f c_before + i g, h = o tanh(c); f, i, o are sigmoids and g a tanh of z -> dz (4,H), dc_before (H,)

    dz in the order i, f, g, o; dc_next: what the step after this one says about c.
    """
    ...  # your turn


def shared_ending(one, two):
    """Two sentences that end alike -> how many words at their ends are the same: what partial scoring may look at"""
    ...  # your turn


def mean_difference(with_it, without):
    """Scores (S,) of two rows of a table, seed by seed -> (mean of the differences, its standard error)

    The error is the standard deviation of the differences (with S - 1) over the root of S. Why not of the scores?
    """
    ...  # your turn


def normalised(score, chance, best):
    """As in figure 2 of the paper: 0 for a guess, 1 for the best that is known"""
    ...  # your turn


def judge():
    """Yields what is asked, your answer, the right one."""
    z = np.array([0.1, 0.2, 0.3, 0.4])[:, None]
    i, f, o = (1 / (1 + np.exp(-z[k])) for k in (0, 1, 3))
    g, c_before = np.tanh(z[2]), np.array([0.5])
    c = f * c_before + i * g
    right = (np.array([0.03641058, 0.06202801, 0.24079182, 0.09695074])[:, None], np.array([0.27557837]))
    yield "cell_backward, the last step", cell_backward(np.ones(1), np.zeros(1), i, f, g, o, c_before, c), right
    right = (np.array([i * (1 - i) * g * 2, f * (1 - f) * c_before * 2, (1 - g * g) * i * 2, [0.0]]), 2 * f)
    yield "cell_backward, a step before", cell_backward(np.zeros(1), 2 * np.ones(1), i, f, g, o, c_before, c), right
    yield "shared_ending", shared_ending("The dog ate it then.", "The old cat ate it then."), 3
    right = (4.0, 1 / np.sqrt(3))
    yield "mean_difference", mean_difference(np.array([60.0, 70, 80]), np.array([55.0, 66, 77])), right
    yield "normalised", normalised(70.0, 50.0, 90.0), 0.5


if __name__ == "__main__":
    for what, yours, right in judge():
        if yours is None:
            raise SystemExit(f"{what}: returns nothing yet")
        pairs = [(yours, right)]
        if isinstance(right, tuple):
            if not isinstance(yours, tuple) or len(yours) != len(right):
                raise SystemExit(f"{what}: return {len(right)} things")
            pairs = list(zip(yours, right, strict=True))
        if not all(np.shape(a) == np.shape(b) and np.allclose(a, b) for a, b in pairs):
            raise SystemExit(f"{what}:\nyours is {yours}\nright is {right}")
        print(f"{what}: right")
    print("all right")

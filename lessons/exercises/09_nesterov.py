"""Exercise 09: an average whose beta changes, and Nesterov's momentum.

1. `corrected`: an average m = beta_t m + (1 - beta_t) g_t that starts at 0, whose beta is another number at each update
(some training runs raise it slowly). What must m be divided by, so that the weights of the gradients sum to 1?
Lesson 09, section 3, has done it for one beta.

2. `nesterov`: momentum that looks ahead (Nesterov 1983). At a point x it first goes where its momentum would carry it,
takes the gradient there, and corrects the momentum:

    ahead = x - lr mu m        g = gradient(ahead)        m = mu m + g        x = x - lr m

A library cannot do that: it is given the gradient at the point where the weights are. So libraries keep `ahead` as the
weights, p = x - lr mu m. Find the update of p: from the old p, from g, the gradient at p, and from the new m. No x may
stand in it.

Judge it:  python lessons/exercises/09_nesterov.py
"""

import numpy as np


def corrected(gradients, betas):
    """The average after each update, corrected for its start at 0: a list as long as the gradients."""
    m, averages = 0.0, []
    for g, beta in zip(gradients, betas, strict=True):
        m = beta * m + (1 - beta) * g
        averages.append(None)  # your turn: a corrected average (it needs a line before the loop, and one in it)
    return averages


def nesterov(p, g, m, lr, mu):
    """One update, p being the point ahead: the new p and the new m."""
    m = mu * m + g
    return None, m  # your turn: p


# --- the judge: nothing below is yours --------------------------------------------------------------------------------


STEEP = np.array([100.0, 1.0])  # the valley of lesson 09: the gradient at p is STEEP * p


def points_ahead(lr, mu, steps):
    """By the definition: the points at which the gradient is taken."""
    x, m, points = np.array([1.0, 1.0]), np.zeros(2), []
    for _ in range(steps):
        ahead = x - lr * mu * m
        points.append(ahead)
        m = mu * m + STEEP * ahead
        x = x - lr * m
    return np.array(points)


def judge() -> str:
    """What is still wrong, or "" if nothing is."""
    betas = [0.5, 0.9, 0.8, 0.99, 0.999]
    got = corrected([3.0] * 5, betas)
    if None in got:
        return "corrected returns nothing yet"
    if not np.allclose(got, 3.0):
        return f"the average of gradients that are all 3 is {[round(float(x), 4) for x in got]}"
    gradients = [1.0, -2.0, 0.5, 4.0, 1.5]
    weights = [(1 - beta) * np.prod(betas[i + 1 :]) for i, beta in enumerate(betas)]
    true = np.dot(weights, gradients) / np.sum(weights)
    if not np.isclose(corrected(gradients, betas)[-1], true):
        return f"the last average of {gradients} is {corrected(gradients, betas)[-1]:.6f}, expected {true:.6f}"
    lr, mu, steps = 0.01, 0.9, 30
    p, m = np.array([1.0, 1.0]), np.zeros(2)
    for i, expected in enumerate(points_ahead(lr, mu, steps)):
        if p is None:
            return "nesterov returns nothing yet"
        if not np.allclose(p, expected, rtol=1e-9):
            return f"nesterov: point {i} of the way is {p}, expected {expected}"
        p, m = nesterov(p, STEEP * p, m, lr, mu)
    return ""


if __name__ == "__main__":
    if wrong := judge():
        raise SystemExit(f"not yet: {wrong}")
    print("right: the average is one from the first update on, and 30 updates look ahead as they should")
    raise SystemExit(0)

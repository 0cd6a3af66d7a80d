"""Exercise 24: find the bug. A function that divides a budget between N and D.

Its author has three tests: 6 N D is the budget; a larger budget gives a larger N and a larger D;
and for a law with alpha = beta = 0.5, N and D grow alike. All three pass, and the advice is wrong.
Run the file: it compares the advice with a search over many N. Find the mistake and correct
`best_split`. Then say which property of the third test hides it. (Lesson 24, section 7.)

Judge it:  python lessons/exercises/24_find_the_bug.py
"""

import math

import numpy as np


def loss(N, D, E, A, B, alpha, beta):
    return E + A / N**alpha + B / D**beta


def best_split(budget, A, B, alpha, beta):
    """N and D with 6 N D = budget for which the loss is smallest."""
    q = budget / 6
    ratio = (alpha * A / (beta * B)) ** (1 / (alpha + beta))
    N = ratio * q ** (alpha / (alpha + beta))
    D = q / N
    return N, D


# --- the judge: nothing below is yours --------------------------------------------------------------------------------


def the_authors_tests():
    for budget in (1e18, 1e20, 1e22):
        N, D = best_split(budget, 400.0, 400.0, 0.5, 0.5)
        larger_N, larger_D = best_split(100 * budget, 400.0, 400.0, 0.5, 0.5)
        assert math.isclose(6 * N * D, budget), "6 N D is the budget"
        assert math.isclose(larger_N / N, 10) and math.isclose(larger_D / D, 10), "alike"
        more, less = (best_split(b, 406.4, 410.7, 0.34, 0.28) for b in (2 * budget, budget))
        assert more[0] > less[0] and more[1] > less[1], "a larger budget, more of both"
    print("the author's three tests pass")


if __name__ == "__main__":
    the_authors_tests()
    for E, A, B, alpha, beta in ((1.8, 400.0, 900.0, 0.5, 0.5), (1.69, 406.4, 410.7, 0.34, 0.28)):
        for budget in (1e20, 1e24):
            N, D = best_split(budget, A, B, alpha, beta)
            sizes = np.geomspace(1e6, 1e14, 4001)
            losses = loss(sizes, budget / 6 / sizes, E, A, B, alpha, beta)
            least = losses.min()
            yours = loss(N, D, E, A, B, alpha, beta)
            print(f"alpha {alpha}, beta {beta}, budget {budget:.0e}: N = {N:.1e}, loss {yours:.4f}")
            if yours > least + 1e-6 or not math.isclose(6 * N * D, budget):
                better = sizes[losses.argmin()]
                raise SystemExit(f"not yet: with N = {better:.1e} the loss is {least:.4f}")
    print("right: no other N has a smaller loss")
    raise SystemExit(0)

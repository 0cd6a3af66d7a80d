"""Exercise 09: the rule that moved GPT-1.

    m = B1 m + (1 - B1) g,    v = B2 v + (1 - B2) g^2
    lr_t = lr sqrt(1 - B2^t) / (1 - B1^t)
    p = p - lr_t (m / (sqrt(v) + eps) + decay p)

and the schedule of fine-tuning, (x/w up to x = w, then 1) (1 - x), where x is the share of the updates already made.
Update t = 1, 2, ... of T is made at x = (t - 1) / T. Four lines are missing. (Lesson 09, section 4.)

Judge it:  python lessons/exercises/09_adam.py
"""

import math  # noqa: F401 (yours to use)

B1, B2, EPS = 0.9, 0.999, 1e-8


def warmup_linear(x, w):
    """The rate as a share of the highest one, when the share x of all updates has been made; w: the warm-up."""
    ...  # your turn


def gpt1_step(p, g, m, v, t, lr, decay):
    """One update: the new p, m and v. t counts from 1, lr is the scheduled rate."""
    ...  # your turn: m and v
    ...  # your turn: lr_t
    ...  # your turn: p
    return p, m, v


if __name__ == "__main__":
    if warmup_linear(0.1, 0.2) is None:
        raise SystemExit("not yet: warmup_linear returns nothing")
    for x, wanted in ((0.001, 0.4995), (0.01, 0.99), (0.5, 0.5), (1, 0)):
        if abs(warmup_linear(x, 0.002) - wanted) > 1e-9:
            raise SystemExit(f"not yet: warmup_linear({x}, 0.002) is {warmup_linear(x, 0.002)}, expected {wanted}")
    for decay, numbers in ((0.01, (1, 0.9954894128, 0.9874733277)), (0.0, (1, 0.9955000020, 0.9875000049))):
        p, m, v = 1.0, 0.0, 0.0
        for t, wanted in enumerate(numbers, 1):
            p, m, v = gpt1_step(p, 0.5, m, v, t, 0.01 * warmup_linear((t - 1) / 10, 0.2), decay)
            if abs(p - wanted) > 1e-10:
                raise SystemExit(f"not yet: decay {decay}, after update {t} p is {p:.10f}, expected {wanted:.10f}")
    print("right: the schedule, and three updates with and without decay, to ten digits")

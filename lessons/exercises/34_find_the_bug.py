"""Exercise 34: find the bug (lesson 34). An interval that is too narrow.

Two models are trained with five seeds each. A seed draws an easy or a hard set of labels, the same for both models.
The author gives a 95 % interval of the difference. But of a hundred comparisons of two models that are *equally good*,
the interval misses 0 far more often than in five. Mend `interval`; run this file again.

Judge it:  python lessons/exercises/34_find_the_bug.py
"""

import numpy as np

STUDENT = 2.776  # for five pairs, 4 degrees of freedom


def interval(one, other):
    """one, other (seeds, tasks): points -> the mean difference, and half of its 95 % interval"""
    paired = one - other
    half = STUDENT * paired.std(ddof=1) / np.sqrt(paired.size)
    return paired.mean(), half


# --- the judge: nothing below is yours --------------------------------------------------------------------------------


def main() -> int:
    """Judge the interval; the exit status."""
    rng = np.random.default_rng(0)
    missed = kept = 0
    right = True
    for _ in range(2000):
        of_seed, of_model = rng.normal(70, 5, size=(5, 1)), rng.normal(0, 3, size=(2, 5, 1))
        noise = rng.normal(0, 2, size=(2, 5, 6))
        one, other = of_seed + of_model + noise
        mean, half = interval(one, other)
        missed += abs(mean) > half
        mean, half = interval(one + 12, other)
        kept += mean - half > 0
        right = right and np.isclose(mean, np.mean(one + 12 - other))  # of all seeds and tasks
    print(f"two equal models: the interval misses 0 in {missed / 20:.1f} of 100 comparisons (5 are right)")
    print(f"a model that is 12 points better: this is found in {kept / 20:.0f} of 100")
    right = right and 3.5 < missed / 20 < 6.5 and kept / 20 > 60
    print("mended: the interval says what it promises" if right else "this is not right yet")
    return 0 if right else 1


if __name__ == "__main__":
    raise SystemExit(main())

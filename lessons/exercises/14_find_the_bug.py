"""Exercise 14: find the bug. A study of models that know nothing, in which nearly all of them are above chance.

Run the file. Four hundred models answer at random, each after every one of ten epochs; a validation set and a test set
are judged by the same rule. How can the mean of what is reported be so far above 50 %? Mend `report`; one line is
enough. (Lesson 14, section 2.)

Judge it:  python lessons/exercises/14_find_the_bug.py
"""

import numpy as np


def report(valid, test):
    """valid, test (E,): the scores of one model after each epoch -> the score of the epoch that was kept"""
    kept = test.argmax()
    return test[kept]


# --- the judge: nothing below is yours --------------------------------------------------------------------------------


if __name__ == "__main__":
    rng = np.random.default_rng(0)
    found = [report(rng.binomial(200, 0.5, 10) / 200, rng.binomial(200, 0.5, 10) / 200) for _ in range(400)]
    if any(one is None or np.shape(one) for one in found):
        raise SystemExit("not yet: report one number for each model")
    mean, error = np.mean(found), np.std(found) / 20
    if abs(mean - 0.5) > 3 * error:
        raise SystemExit(f"not yet: models that toss a coin get {100 * mean:.1f} %, give or take {100 * error:.1f}")
    valid, test = np.array([0.5, 0.7, 0.6]), np.array([0.9, 0.8, 0.4])
    if report(valid, test) != 0.8:
        raise SystemExit(f"now {report(valid, test)} is reported: which epoch would you keep without a test set?")
    print("right: the scores that choose the epoch are not the scores that are reported")
    raise SystemExit(0)

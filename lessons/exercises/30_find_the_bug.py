"""Exercise 30: find the bug (lesson 30). A number for each distance whose gradient is right for short texts.

The author has checked the gradient with a text of three tokens: every number was right. In training, with longer texts,
the table learns slowly, and badly. Say what a text of three tokens cannot show, before you look for the line; mend it
in `bias_backward`; run this file again.

Judge it:  python lessons/exercises/30_find_the_bug.py
"""

import numpy as np

K = 4  # distances from -4 to 4; what is farther is taken for these


def where(t):
    """(T,T) int: the row of the table for the distance of each query and key"""
    distance = np.arange(t) - np.arange(t)[:, None]
    return np.clip(distance, -K, K) + K


def bias_forward(scores, table):
    """scores (T,T), table (2 K + 1,) -> scores and a number for each distance (T,T)"""
    return scores + table[where(len(scores))], (len(scores), len(table))


def bias_backward(dout, cache):
    """dout (T,T) -> dscores (T,T), dtable (2 K + 1,)"""
    t, n_rows = cache
    dtable = np.zeros(n_rows, dout.dtype)
    for row in range(n_rows):
        distance = row - K
        dtable[row] = np.trace(dout, offset=distance) if abs(distance) < t else 0.0
    return dout, dtable


# --- the judge: nothing below is yours --------------------------------------------------------------------------------


if __name__ == "__main__":
    from minigpt import gradcheck

    wrong = False
    for t in (3, 8):
        rng = np.random.default_rng(t)
        results = gradcheck.check(bias_forward, bias_backward, (rng.normal(size=(t, t)), rng.normal(size=2 * K + 1)))
        print(f"a text of {t} tokens\n{gradcheck.table(results)}")
        wrong = wrong or any(result.word != "happy" for result in results)
    if wrong:
        raise SystemExit("this is not right yet")
    print("right: both gradients, for short and long texts")
    raise SystemExit(0)

"""Exercise 31: find the bug (lesson 31). One word of each row is predicted from nothing.

The author draws an order for each row; the last n words of it are predicted, one after the other, and all others are
given: they have rank 0 and come before them. The training runs, but the loss stays higher than it should. Print the
query mask of one row, and look at the rows of the predicted words. Mend the line in `ranks`; run this file again.

Judge it:  python lessons/exercises/31_find_the_bug.py
"""

import numpy as np


def ranks(order, n):
    """order (B,T) int: when each word comes, from 0 -> rank (B,T): 0 for what is given, 1 to n for what is predicted"""
    t = order.shape[1]
    return np.maximum(order - (t - n), 0)


def query_mask(rank):
    """rank (B,T) -> (B,T,T) boolean: may the row's word see the column's, without its own?"""
    return rank[:, None, :] < rank[:, :, None]


# --- the judge: nothing below is yours --------------------------------------------------------------------------------


def main() -> int:
    """Judge the masks; the exit status."""
    b, t, n = 200, 8, 3
    order = np.random.default_rng(0).random((b, t)).argsort(axis=1).argsort(axis=1)
    rank = ranks(order, n)
    mask = query_mask(rank)
    last = order >= t - n  # these are predicted
    first = order == t - n  # the first of them
    seen = mask.sum(axis=-1)
    print(f"words that are predicted in a row: {n}; they see {sorted(set(seen[last].tolist()))} others")
    print(f"the first of them sees {sorted(set(seen[first].tolist()))} others; {t - n} words are given")
    right = (seen[first] == t - n).all() and (seen[last].reshape(b, n).sum(axis=1) == n * (t - n) + 3).all()
    right = right and not mask[:, np.arange(t), np.arange(t)].any()
    if right and (np.sort(rank, axis=1) != [0] * (t - n) + [*range(1, n + 1)]).any():
        print("the masks are right; but the ranks are not 0 for what is given, and 1 to n for what is predicted")
        right = False
    print("mended: every predicted word sees all that comes before it" if right else "this is not right yet")
    return 0 if right else 1


if __name__ == "__main__":
    raise SystemExit(main())

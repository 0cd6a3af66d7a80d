"""Exercise 36: find the bug (lesson 36, section 7). A window that is one too narrow.

A position of a Mistral sees `window` keys, its own among them. The author's mask has the right shape, hides the future,
and a model trains with it. But with a window of 1 a row sees nothing, and elsewhere each row sees one key too few. Mend
`seen`, so that it also holds for T new positions behind a past; run this file again.

Judge it:  python lessons/exercises/36_find_the_bug.py
"""

import numpy as np


def seen(t, n_past, window):
    """(T,S) boolean, S = n_past + T: may query i, at place n_past + i, see the key of a column?"""
    query = n_past + np.arange(t)[:, None]
    key = np.arange(n_past + t)
    return (key <= query) & (query - key < window - 1)


# --- the judge: nothing below is yours --------------------------------------------------------------------------------


def main() -> int:
    """Judge the mask; the exit status."""
    right = True
    for t, n_past, window in ((5, 0, 3), (5, 0, 1), (4, 6, 4), (1, 9, 2), (3, 0, 50)):
        mask = np.asarray(seen(t, n_past, window))
        rows = [set(np.flatnonzero(row)) for row in mask] if mask.shape == (t, n_past + t) else []
        wanted = [set(range(max(0, at - window + 1), at + 1)) for at in range(n_past, n_past + t)]
        told = "right"
        if not rows:
            told = f"its shape is {mask.shape}, and must be {(t, n_past + t)}"
        elif rows != wanted:
            row = next(i for i in range(t) if rows[i] != wanted[i])
            told = f"row {row} sees {len(rows[row])} keys, and {len(wanted[row])} are right"
        print(f"{t} positions behind {n_past}, a window of {window}: {told}")
        right = right and told == "right"
    print("mended: each position sees its window" if right else "this is not right yet")
    return 0 if right else 1


if __name__ == "__main__":
    raise SystemExit(main())

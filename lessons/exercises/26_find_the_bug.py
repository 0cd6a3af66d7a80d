"""Exercise 26: find the bug (lesson 26). A covering that teaches nothing.

The author has written BERT's covering, for simplicity with `_mask_` alone. The training runs, and its loss is soon
near 0. But on new texts the model always gives the same answer. Say which answer that must be, before you look for
the line; mend it in `cover`; run this file again.

Judge it:  python lessons/exercises/26_find_the_bug.py
"""

import numpy as np

MASK, IGNORED = 0, -100


def cover(ids, rng, rate=0.15):
    """ids (B,T) -> what the model sees (B,T), and targets (B,T): the covered tokens, elsewhere IGNORED"""
    chosen = rng.random(ids.shape) < rate
    seen = ids.reshape(ids.shape)
    seen[chosen] = MASK
    targets = np.where(chosen, ids, IGNORED)
    return seen, targets


def main() -> int:
    """Judge the covering; the exit status."""
    ids = np.random.default_rng(0).integers(1, 10, size=(200, 16))
    given = ids.copy()
    seen, targets = cover(given, np.random.default_rng(1))
    chosen = targets != IGNORED
    faults = []
    if not np.array_equal(given, ids):
        faults.append("the text that was given has changed: the next epoch would read what is left of it")
    if (targets[chosen] != ids[chosen]).any():
        faults.append(f"of {chosen.sum()} targets, {(targets == ids)[chosen].sum()} are the words that were covered")
    if (seen[chosen] != MASK).any() or (seen != ids)[~chosen].any():
        faults.append("the model does not see the mask at the chosen places and the text at all others")
    for fault in faults:
        print(fault)
    print("this is not right yet" if faults else "mended: the covering is right")
    return 1 if faults else 0


if __name__ == "__main__":
    raise SystemExit(main())

"""Exercise 26: find the bug (lesson 26). A covering that teaches nothing.

The author has written BERT's covering, for simplicity with `_mask_` alone. The training runs, and its loss is soon
near 0. But on new texts the model always gives the same answer. Say which answer that must be, before you look for
the line; mend it in `cover`; run this file again.

Judge it:  python lessons/exercises/26_find_the_bug.py
"""

import numpy as np

MASK, IGNORED = 0, -100


def cover(ids, chance, rate=0.15):
    """ids (B,T) -> what the model sees (B,T), and targets (B,T): the covered tokens, elsewhere IGNORED

    chance (B,T): random numbers from 0 to 1; a token is covered where its number is below the rate.
    """
    chosen = chance < rate
    seen = ids.reshape(ids.shape)
    seen[chosen] = MASK
    targets = np.where(chosen, ids, IGNORED)
    return seen, targets


def two_epochs(ids, chances):
    """Given: what `cover` gives for the same texts in two epochs, one after the other. chances (2,B,T)"""
    return [cover(ids, chance) for chance in chances]


# --- the judge: nothing below is yours --------------------------------------------------------------------------------


def main() -> int:
    """Judge the covering; the exit status."""
    ids = np.random.default_rng(0).integers(1, 10, size=(200, 16))
    chances = np.random.default_rng(1).random((2, 200, 16))
    faults = []
    epochs = two_epochs(ids.copy(), chances)
    if len(epochs) != 2:
        faults.append(f"two_epochs gives {len(epochs)} epochs, and not 2")
    for epoch, (seen, targets) in enumerate(epochs, start=1):
        chosen = targets != IGNORED
        if not 0.1 < chosen.mean() < 0.2:
            faults.append(f"epoch {epoch}: of all tokens {chosen.mean():.0%} are covered, and not 15 %")
        if (targets[chosen] != ids[chosen]).any():
            equal = (targets == ids)[chosen].sum()
            faults.append(f"epoch {epoch}: of {chosen.sum()} targets, {equal} are the words that were covered")
        if (seen[chosen] != MASK).any() or (seen != ids)[~chosen].any():
            faults.append(f"epoch {epoch}: the model does not see masks where they should be, and the text elsewhere")
    for fault in faults:
        print(fault)
    print("this is not right yet" if faults else "mended: the covering is right")
    return 1 if faults else 0


if __name__ == "__main__":
    raise SystemExit(main())

"""Exercise 29: find the bug (lesson 29). A generator whose words are as frequent as they should be.

The author has tested the drawing with many texts: each word is drawn as often as its probability says. But where three
names of a text are covered, and the generator thinks that all eight names are equally likely, the same name is drawn
three times, always. Say which test of two words at once would have shown it, before you look for the line; mend it in
`fill_in`; run this file again.

Judge it:  python lessons/exercises/29_find_the_bug.py
"""

import numpy as np

IGNORED = -100


def fill_in(ids, targets, p, seed):
    """ids (B,T), targets (B,T), p (B,T,V) -> seen (B,T), with a drawn word wherever there is a target"""
    rng = np.random.default_rng(seed)
    chance = rng.random((len(ids), 1))
    words = (p.cumsum(axis=-1) <= chance[..., None]).sum(axis=-1)
    return np.where(targets == IGNORED, ids, words)


# --- the judge: nothing below is yours --------------------------------------------------------------------------------


def main() -> int:
    """Judge the drawing; the exit status."""
    n, places = 4000, 6
    p = np.tile([0.1, 0.2, 0.3, 0.4], (n, places, 1))
    ids = np.random.default_rng(0).integers(4, size=(n, places))
    targets = np.where(np.arange(places) % 2 == 0, ids, IGNORED)
    seen = fill_in(ids, targets, p, 1)
    faults = []
    if np.shape(seen) != ids.shape or (seen != ids)[:, 1::2].any():
        raise SystemExit("this is not right yet: words that were not covered have changed")
    shares = np.stack([np.bincount(seen[:, place], minlength=4) / n for place in (0, 2, 4)])
    if np.abs(shares - p[0, 0]).max() > 0.04:
        faults.append(f"the words are not as frequent as they should be: {shares.round(2).tolist()}")
    equal = np.mean([(seen[:, a] == seen[:, b]).mean() for a, b in ((0, 2), (0, 4), (2, 4))])
    expected = (p[0, 0] ** 2).sum()
    if abs(equal - expected) > 0.04:
        faults.append(f"two drawn words of a text are the same in {equal:.0%} of the texts, not in {expected:.0%}")
    across = np.mean([(seen[1:, place] == seen[:-1, place]).mean() for place in (0, 2, 4)])
    if abs(across - expected) > 0.04:
        faults.append(f"neighbouring texts have the same drawn word in {across:.0%}, not in {expected:.0%}")
    for fault in faults:
        print(fault)
    print("this is not right yet" if faults else "mended: the drawing is right")
    return 1 if faults else 0


if __name__ == "__main__":
    raise SystemExit(main())

"""Exercise 32: find the bug (lesson 32). A builder of MASS whose model hardly learns.

The author loses a fragment of each text, and lets the decoder write it. The source is right, the decoder's input is
shifted, no gradient is wrong. But after 240 updates the loss was five times that of the right builder: the model knows
many words of the text, and not which of them is to be written. What does MASS's decoder know that this one does not?
Mend the line in `fragments`; run this file again.

Judge it:  python lessons/exercises/32_find_the_bug.py
"""

import numpy as np

MASK = 0


def fragments(text, n, seed):
    """text (B,T) int -> source (B,T), decoder input (B,n), targets (B,n), and the decoder's positions (B,n)"""
    rng = np.random.default_rng(seed)
    b, t = text.shape
    first = rng.integers(t - n + 1, size=(b, 1))
    places = first + np.arange(n)
    targets = np.take_along_axis(text, places, axis=1)
    source = text.copy()
    np.put_along_axis(source, places, MASK, axis=1)
    seen = np.concatenate([np.full((b, 1), MASK), targets[:, :-1]], axis=1)
    positions = np.arange(n) + np.zeros((b, 1), int)
    return source, seen, targets, positions


# --- the judge: nothing below is yours --------------------------------------------------------------------------------


def main() -> int:
    """Judge the four arrays; the exit status."""
    text = np.random.default_rng(0).permuted(np.tile(np.arange(1, 15), (50, 1)), axis=1)
    source, seen, targets, positions = fragments(text, 4, 1)
    hidden = np.where(source == MASK, text, 0)
    faults = []
    if [array.shape for array in (source, seen, targets, positions)] != [(50, 14), (50, 4), (50, 4), (50, 4)]:
        print("the shapes are not (B,T), (B,n), (B,n), (B,n): this is not right yet")
        return 1
    if not np.array_equal(hidden[hidden > 0].reshape(50, -1), targets):
        faults.append("the targets are not the words that the source has lost")
    if (seen[:, 0] != MASK).any() or (seen[:, 1:] != targets[:, :-1]).any():
        faults.append("the decoder does not see the mask, and then its targets one place late")
    starts = sorted(set(positions[:, 0].tolist()))
    print(f"the fragments begin at the positions {starts}")
    there = np.take_along_axis(text, np.clip(positions, 0, 13), axis=1) == targets
    if not there.all():
        faults.append(f"at the given positions the texts have {there.sum()} of the {there.size} targets")
    for fault in faults:
        print(fault)
    print("this is not right yet" if faults else "mended: the source, the decoder's words and their positions agree")
    return 1 if faults else 0


if __name__ == "__main__":
    raise SystemExit(main())

"""Exercise 32: find the bug (lesson 32). A good loss, and texts that begin with nonsense.

The author fills up the targets of a batch to one length and shifts them to the right for the decoder. The loss falls as
it should. But when the model writes, the first word of most texts is wrong, and then all that follows. What does the
decoder see at its first place in training, and what when it writes? Mend the line in `decoder_input`; run this file
again.

Judge it:  python lessons/exercises/32_find_the_bug.py
"""

import numpy as np

PAD, START, END, IGNORED = 0, 1, 2, -100


def filled_up(targets):
    """Lists of words -> (B,T) int: each with END behind it, and PAD where it is shorter than the longest"""
    longest = max(map(len, targets)) + 1
    return np.array([[*words, END] + [PAD] * (longest - len(words) - 1) for words in targets])


def decoder_input(filled):
    """filled (B,T) -> (B,T): what the decoder sees, the targets one place late"""
    return np.roll(filled, 1, axis=1)


def main() -> int:
    """Judge the decoder's input; the exit status."""
    rng = np.random.default_rng(0)
    texts = [rng.integers(3, 20, size=n).tolist() for n in (4, 7, 2, 6)]
    filled = filled_up(texts)
    given = filled.copy()
    seen = decoder_input(filled)
    faults = []
    if seen.shape != filled.shape:
        print(f"the decoder sees {seen.shape} tokens, and {filled.shape} are predicted: this is not right yet")
        return 1
    used = np.unique(seen).tolist()
    if START not in used:
        faults.append(f"the decoder never sees {START}, the token with which it starts when it writes")
    moved = 0
    for row in range(len(texts)):
        other = filled.copy()
        other[row, -1] = 19 if other[row, -1] != 19 else 18
        moved += (decoder_input(other)[row] != seen[row]).any()
    if moved:
        faults.append(f"in {moved} of {len(texts)} rows the decoder's input depends on the last target")
    late = all(seen[row, place + 1] == word for row, words in enumerate(texts) for place, word in enumerate(words))
    if not late:
        faults.append("a word of the targets does not stand one place later in the decoder's input")
    if not np.array_equal(filled, given):
        faults.append("the targets have changed")
    for fault in faults:
        print(fault)
    print("this is not right yet" if faults else "mended: first the start, then each word one place late")
    return 1 if faults else 0


if __name__ == "__main__":
    raise SystemExit(main())

"""Exercise 13: find the bug. A head that was tried on texts of one length, and went wrong with the second batch.

Run the file. What does the head look at, and what should it? Mend `states_for_the_head`; one line is enough. (Lesson
13, section 2.)

Judge it:  python lessons/exercises/13_find_the_bug.py
"""

import numpy as np

EXTRACT = 9


def states_for_the_head(h, lengths):
    """h (N,T,C): the states of sequences that are filled up at the right; lengths (N,) -> (N,C)"""
    return h[:, -1]


# --- the judge: nothing below is yours --------------------------------------------------------------------------------


if __name__ == "__main__":
    ids = np.array([[1, 2, 3, EXTRACT], [4, EXTRACT, 0, 0], [5, 6, EXTRACT, 0]])
    lengths = np.array([4, 2, 3])
    h = np.stack([ids, 10 * ids], axis=-1).astype(float)  # a model that thinks of its token only
    states = states_for_the_head(h, lengths)
    if states.shape != (3, 2):
        raise SystemExit(f"now the shape is {states.shape}, expected one state for each sequence, (3, 2)")
    if not np.array_equal(states[:1], [[EXTRACT, 10.0 * EXTRACT]]):
        raise SystemExit("now the longest sequence, with which the author tried it, is wrong too")
    wrong = [n for n in range(3) if states[n, 0] != EXTRACT]
    if wrong:
        seen = [int(states[n, 0]) for n in wrong]
        raise SystemExit(f"not yet: in the sequences {wrong} the head looks at the tokens {seen}, not at {EXTRACT}")
    print("right: each sequence is read where it ends")
    raise SystemExit(0)

"""Exercise 25: find the bug (lesson 25). A direction from the right that is right for full rows only.

Texts of different lengths stand in one batch; short ones are filled up with zeros at their right. The author has tested
the states of a batch of equal texts: all of them were right. With texts of different lengths, a short text gets other
states in a batch than alone, although the zeros stand behind its end. Say why, before you look for the line; mend it in
`from_the_right`; run this file again.

Judge it:  python lessons/exercises/25_find_the_bug.py
"""

import numpy as np

from minigpt import ops

CELLS = 4
draw = np.random.default_rng(0)
TABLE = draw.normal(size=(10, 3))  # a vector for each token; token 0 fills up
W, U, B = (draw.normal(size=size) for size in ((3, 4 * CELLS), (CELLS, 4 * CELLS), 4 * CELLS))


def from_the_right(ids, lengths):
    """ids (B,T), lengths (B,) -> h (B,T,H): the state at each place, which has read from the end of its text to it"""
    x = TABLE[ids]
    turned = x[:, ::-1]
    out, _ = ops.lstm_forward(turned, W, U, B, np.zeros((len(x), 2 * CELLS)))
    h = out[:, ::-1, :CELLS]
    return h * (np.arange(ids.shape[1]) < lengths[:, None])[..., None]


# --- the judge: nothing below is yours --------------------------------------------------------------------------------


def main() -> int:
    """Judge the direction; the exit status."""
    rng = np.random.default_rng(1)
    faults = []
    for lengths in (np.array([6, 6, 6]), np.array([6, 2, 4])):
        ids = rng.integers(1, 10, size=(3, 6)) * (np.arange(6) < lengths[:, None])
        together = from_the_right(ids, lengths)
        for row, n in enumerate(lengths):
            alone = from_the_right(ids[row : row + 1, :n], np.array([n]))
            state = np.zeros((1, 2 * CELLS))
            for place in range(n)[::-1]:  # slowly: one token after the other, from the last to the first
                step, _ = ops.lstm_forward(TABLE[ids[row : row + 1, place]][:, None], W, U, B, state)
                state = step[:, -1]
                if np.abs(state[0, :CELLS] - alone[0, place]).max() > 1e-9:
                    faults.append(f"a text of {n} tokens, alone: the state at place {place} is wrong")
            difference = np.abs(together[row, :n] - alone[0]).max()
            if difference > 1e-9:
                faults.append(f"lengths {lengths.tolist()}, text {row}: its states differ by {difference:.2f} from "
                              "those that it has alone")  # fmt: skip
    for fault in faults:
        print(fault)
    print("this is not right yet" if faults else "mended: each text has the states that it has alone")
    return 1 if faults else 0


if __name__ == "__main__":
    raise SystemExit(main())

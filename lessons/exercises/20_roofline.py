"""Exercise 20: three operations under the roofline (lesson 20).

For each operation say how many bytes a single kernel has to move at least, how many arithmetic operations it does,
and how long it takes at least on a T4. Every number is a float32 and has 4 bytes; what is read is read once, what is
written is written once. Replace what is marked "your turn". Run this file: bytes and operations are compared with an
array that counts, and the rest with loops:

    python lessons/exercises/20_roofline.py
"""

import numpy as np

RATE, MEMORY = 8.1e12, 320e9  # published peaks of a T4: operations and bytes per second
DECODED = 24 * 768 * 768  # operations of one token in one block of GPT-2 small: lesson 17, without attention


def adam(n):
    """(bytes, operations) of an update of n weights: w, g, m, v are read; w, m, v are written.

    m = b1 m + (1 - b1) g;   v = b2 v + (1 - b2) g g;   w = w - lr m / (sqrt(v) + eps)

    Count multiplications, additions, subtractions, divisions and roots of numbers that belong to a weight; (1 - b1) and
    (1 - b2) are known before.
    """
    return None  # your turn


def lookup(tokens, columns):
    """(bytes, operations) of an embedding: ids (tokens,) of 8 bytes each; a row of the table is copied for each id."""
    return None  # your turn


def least_seconds(moved, work):
    """The least time on a T4: what limits, memory or arithmetic?"""
    return None  # your turn


def one_token_intensity(batch):
    """Operations per byte of a block of GPT-2 small that generates one token for each of `batch` texts.

    DECODED operations for each text. Its 12 x 768 x 768 weights are read once for all texts; activations are small, and
    are left out.
    """
    return None  # your turn


def main() -> int:
    """Judge all four; the exit status."""
    from minigpt.learn.counting import Counted, launches_of

    mine = adam(1000), lookup(10, 64), least_seconds(320e9, 1.0), one_token_intensity(1)
    names = "adam", "lookup", "least_seconds", "one_token_intensity"
    empty = [name for name, value in zip(names, mine, strict=True) if value is None]
    for name in empty:
        print(f"{name} returns nothing yet: your turn")
    if empty:
        return 1

    w, g, m, v = np.random.default_rng(0).random((4, 1000), dtype=np.float32).view(Counted)
    b1, b2, rate, eps = (np.float32(number) for number in (0.9, 0.999, 0.001, 1e-8))
    launches = launches_of(
        lambda: (b1 * m + (1 - b1) * g, b2 * v + (1 - b2) * (g * g), w - rate * m / (np.sqrt(v) + eps))
    )
    table = np.zeros((100, 64), np.float32)
    copied = table[np.arange(10)]
    right = {
        "adam": (sum(a.nbytes for a in (w, g, m, v)) + sum(a.nbytes for a in (w, m, v)), sum(a.work for a in launches)),
        "lookup": (10 * 8 + 2 * copied.nbytes, 0),
        "least_seconds, memory": (1.0,),
        "least_seconds, arithmetic": (2.0,),
        "one_token_intensity, 8 texts": (8 * one_by_one(768) / 768**2 / 48,),
    }
    found = {
        "adam": adam(1000),
        "lookup": lookup(10, 64),
        "least_seconds, memory": (least_seconds(320e9, 1.0),),
        "least_seconds, arithmetic": (least_seconds(1.0, 2 * RATE),),
        "one_token_intensity, 8 texts": (one_token_intensity(8),),
    }
    happy = True
    for name, expected in right.items():
        good = np.allclose(found[name], expected)
        happy = happy and good
        print(f"{name:30} yours {found[name]}: {'right' if good else 'not right'}")
    for batch in (1, 64) if happy else ():
        print(f"one token for {batch} texts: {one_token_intensity(batch):.1f} operations per byte; the ridge is at 25")
    print("solved: look at the last lines" if happy else "not solved yet")
    return 0 if happy else 1


def one_by_one(c):
    """Operations of the four linear maps of a block, added up by a loop over their columns."""
    return sum(2 * rows for columns, rows in ((3 * c, c), (c, c), (4 * c, c), (c, 4 * c)) for _ in range(columns))


if __name__ == "__main__":
    raise SystemExit(main())

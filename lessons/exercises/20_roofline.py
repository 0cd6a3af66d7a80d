"""Exercise 20: three operations under the roofline (lesson 20).

For each operation say how many bytes a single kernel has to move at least, how many arithmetic operations it does,
and how long it takes at least on a T4. Every number is a float32 and has 4 bytes; what is read is read once, what is
written is written once. Replace what is marked "your turn". Run this file: bytes and operations are compared with an
array that counts, and the rest with numbers that were computed before:

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


# --- the judge: nothing below is yours --------------------------------------------------------------------------------


def counted(n):
    """Bytes and operations of an update of n weights, counted while it is made."""
    from minigpt.learn.counting import Counted, launches_of

    w, g, m, v = np.random.default_rng(0).random((4, n), dtype=np.float32).view(Counted)
    b1, b2, rate, eps = (np.float32(number) for number in (0.9, 0.999, 0.001, 1e-8))
    launches = launches_of(
        lambda: (b1 * m + (1 - b1) * g, b2 * v + (1 - b2) * (g * g), w - rate * m / (np.sqrt(v) + eps))
    )
    return sum(a.nbytes for a in (w, g, m, v)) + sum(a.nbytes for a in (w, m, v)), sum(a.work for a in launches)


def questions():
    """Yields what is asked, your answer, the right one."""
    yield "adam, 1,000 weights", adam(1000), counted(1000)
    yield "adam, 7 weights", adam(7), counted(7)
    yield "lookup, 10 ids and 64 columns", lookup(10, 64), (5200, 0)
    yield "lookup, 3 ids and 5 columns", lookup(3, 5), (144, 0)
    yield "least_seconds, memory", least_seconds(320e9, 1.0), 1.0
    yield "least_seconds, arithmetic", least_seconds(1.0, 16.2e12), 2.0
    yield "least_seconds, both at once", least_seconds(160e9, 2.025e12), 0.5
    yield "one_token_intensity, 1 text", one_token_intensity(1), 0.5
    yield "one_token_intensity, 8 texts", one_token_intensity(8), 4.0


def main() -> int:
    """Judge all four; the exit status."""
    happy = True
    for name, found, expected in questions():
        if found is None:
            print(f"{name:30} returns nothing yet: your turn")
            happy = False
            continue
        good = np.shape(found) == np.shape(expected) and np.allclose(found, expected)
        happy = happy and good
        print(f"{name:30} yours {found}: {'right' if good else 'not right'}")
    for batch in (1, 64) if happy else ():
        print(f"one token for {batch} texts: {one_token_intensity(batch):.1f} operations per byte; the ridge is at 25")
    print("solved: look at the last lines" if happy else "not solved yet")
    return 0 if happy else 1


if __name__ == "__main__":
    raise SystemExit(main())

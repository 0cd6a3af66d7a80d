"""Exercise 34: who sees whom, as masks (lesson 34, section 1).

Write the boolean masks (T,T): may the state of a row see the word of a column? The first four are those of the lesson;
the last is new: the *prefix* model of the T5 paper (section 3.2.1). Its first n words see each other from both sides;
each later word sees these and all on its left. Replace what is marked "your turn".

Judge it:  python lessons/exercises/34_masks.py
"""

import numpy as np


def left(t):
    """GPT: each word sees itself and all on its left"""
    return None  # your turn


def right(t):
    """The second direction of ELMo: itself and all on its right"""
    return None  # your turn


def drawn(order):
    """XLNet's content stream: itself and all that come before it in this order. order (T,): the words, first to last"""
    return None  # your turn


def query(order):
    """XLNet's query stream: all that come before it, without itself"""
    return None  # your turn


def prefix(t, n):
    """The prefix model: the first n words see each other, each later word sees the left"""
    return None  # your turn


# --- the judge: nothing below is yours --------------------------------------------------------------------------------


def masks_of(numbers):
    """A mask (T,T) whose rows are the digits of these binary numbers."""
    return np.array([[digit == "1" for digit in f"{number:0{len(numbers)}b}"] for number in numbers])


def questions():
    """Yields the name of a mask, yours, and the right one."""
    seven, four = np.array([2, 5, 3, 1, 4, 0, 6]), np.array([3, 1, 0, 2])
    yield "left", left(7), masks_of([64, 96, 112, 120, 124, 126, 127])
    yield "right", right(7), masks_of([127, 63, 31, 15, 7, 3, 1])
    yield "drawn", drawn(seven), masks_of([126, 58, 16, 26, 62, 18, 127])
    yield "drawn", drawn(four), masks_of([13, 5, 15, 1])
    yield "query", query(seven), masks_of([62, 26, 0, 18, 58, 16, 126])
    yield "query", query(four), masks_of([5, 1, 13, 0])
    yield "prefix", prefix(7, 3), masks_of([112, 112, 112, 120, 124, 126, 127])
    yield "prefix", prefix(4, 1), masks_of([8, 12, 14, 15])


def main() -> int:
    """Judge the masks; the exit status."""
    all_right = True
    for name, given, expected in questions():
        if given is None:
            print(f"{name:7} returns nothing yet: your turn")
        elif np.shape(given) != expected.shape:
            print(f"{name:7} has shape {np.shape(given)}, wanted is {expected.shape}")
        elif np.asarray(given).dtype != bool:
            print(f"{name:7} has entries of type {np.asarray(given).dtype}, wanted is bool")
        elif not np.array_equal(given, expected):
            row, column = np.argwhere(np.asarray(given) != expected)[0]
            print(f"{name:7} is wrong: may word {row} see word {column}? {bool(expected[row, column])}")
        else:
            print(f"{name:7} happy, with {len(expected)} words")
            continue
        all_right = False
    return 0 if all_right else 1


if __name__ == "__main__":
    raise SystemExit(main())

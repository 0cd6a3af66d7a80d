"""Exercise 34: who sees whom, as masks (lesson 34, section 1).

Write the boolean masks (T,T): may the state of a row see the word of a column? The first four are those of the lesson;
the last is new: the *prefix* model of the T5 paper (section 3.2.1). Its first n words see each other from both sides;
each later word sees these and all on its left. Replace every `...`.

Judge it:  python lessons/exercises/34_masks.py
"""

import numpy as np


def left(t):
    """GPT: each word sees itself and all on its left"""
    return ...  # your turn


def right(t):
    """The second direction of ELMo: itself and all on its right"""
    return ...  # your turn


def drawn(order):
    """XLNet's content stream: itself and all that come before it in this order. order (T,): the words, first to last"""
    return ...  # your turn


def query(order):
    """XLNet's query stream: all that come before it, without itself"""
    return ...  # your turn


def prefix(t, n):
    """The prefix model: the first n words see each other, each later word sees the left"""
    return ...  # your turn


def seen_one_by_one(rule, t):
    """The same mask from a rule for one pair."""
    return np.array([[rule(row, column) for column in range(t)] for row in range(t)])


def main() -> int:
    """Judge the masks; the exit status."""
    t, n = 7, 3
    order = np.random.default_rng(0).permutation(t)
    rank = {word: i for i, word in enumerate(order.tolist())}
    wanted = {
        "left": (left(t), lambda row, column: column <= row),
        "right": (right(t), lambda row, column: column >= row),
        "drawn": (drawn(order), lambda row, column: rank[column] <= rank[row]),
        "query": (query(order), lambda row, column: rank[column] < rank[row]),
        "prefix": (prefix(t, n), lambda row, column: column <= row or column < n),
    }
    all_right = True
    for name, (given, rule) in wanted.items():
        expected = seen_one_by_one(rule, t)
        if given is ...:
            print(f"{name:7} returns nothing yet: your turn")
        elif np.shape(given) != (t, t):
            print(f"{name:7} has shape {np.shape(given)}, wanted is ({t}, {t})")
        elif not np.array_equal(given, expected):
            row, column = np.argwhere(np.asarray(given) != expected)[0]
            print(f"{name:7} is wrong: may word {row} see word {column}? {bool(expected[row, column])}")
        else:
            print(f"{name:7} happy")
            continue
        all_right = False
    return 0 if all_right else 1


if __name__ == "__main__":
    raise SystemExit(main())

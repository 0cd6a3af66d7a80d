"""Exercise 13: layouts, and the way back from the head (lesson 13, sections 2 to 4).

Five functions of one to four lines. Mind the order of the two texts of a similarity, and what an addition does to a
gradient on its way back.

Judge it:  python lessons/exercises/13_fine_tuning.py
"""

import numpy as np

START, DELIMITER, EXTRACT = 100, 101, 102


def entailment(premise, hypothesis):
    """Two lists of ids -> [the one sequence]"""
    ...  # your turn


def similarity(a, b):
    """Two lists of ids -> [two sequences]"""
    ...  # your turn


def choice(context, question, *candidates):
    """Lists of ids -> [a sequence for each candidate]"""
    ...  # your turn


def lm_share(lengths, t):
    """lengths (N,) -> (N,t): how much the prediction made at each position weighs in L1

    Each sequence weighs 1 / N; within it, all its predictions alike; after its extract token nothing is predicted.
    """
    ...  # your turn


def head_backward(dscores, w, last, t, adds):
    """dscores (N,K), w (C,K), last (N,S): the places of the extract tokens -> dh (N,S,t,C)

    adds: were the S states of an example added before the head? Otherwise S is 1.
    """
    ...  # your turn


def judge():
    """Yields what is asked, your answer, the right one."""
    yield "entailment([1, 2], [3])", entailment([1, 2], [3]), [[100, 1, 2, 101, 3, 102]]
    yield "similarity([1], [2])", similarity([1], [2]), [[100, 1, 101, 2, 102], [100, 2, 101, 1, 102]]
    right = [[100, 1, 2, 3, 101, 4, 102], [100, 1, 2, 3, 101, 5, 102], [100, 1, 2, 3, 101, 6, 102]]
    yield "choice([1, 2], [3], [4], [5], [6])", choice([1, 2], [3], [4], [5], [6]), right
    right = [[1 / 4, 1 / 4, 0, 0], [1 / 6, 1 / 6, 1 / 6, 0]]
    yield "lm_share of lengths 3 and 4", lm_share(np.array([3, 4]), 4), right
    w, dscores = np.array([[1.0, 2.0], [0.0, -1.0], [3.0, 0.5]]), np.array([[0.5, -0.5], [1.0, 2.0]])
    for adds, last in ((False, np.array([[2], [1]])), (True, np.array([[2, 0], [1, 2]]))):
        right = np.zeros((2, last.shape[1], 3, 3))
        for n in range(2):
            for s in range(last.shape[1]):
                right[n, s, last[n, s]] = w @ dscores[n]
        yield f"head_backward, {last.shape[1]} sequences each", head_backward(dscores, w, last, 3, adds), right


if __name__ == "__main__":
    for what, yours, right in judge():
        if yours is None:
            raise SystemExit(f"{what}: returns nothing yet")
        forms = [[np.shape(one) for one in answer] for answer in (yours, right)]
        if forms[0] != forms[1] or not all(np.allclose(a, b) for a, b in zip(yours, right, strict=True)):
            raise SystemExit(f"{what}:\nyours is {yours}\nright is {right}")
        print(f"{what}: right")
    print("all right")

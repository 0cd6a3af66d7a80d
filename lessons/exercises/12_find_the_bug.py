"""Exercise 12: find the bug. The paper's nucleus, tried by its author on four probabilities: 0.5, 0.25, 0.15, 0.1.

Run the file. What is special about the author's example? What would text look like that is written with this nucleus?
Mend `keep_nucleus`; one line is enough. (Lesson 12, section 2.)

Judge it:  python lessons/exercises/12_find_the_bug.py
"""

import numpy as np


def probabilities(logits):
    """logits (B,V) -> p (B,V), the softmax"""
    e = np.exp(logits - logits.max(axis=-1, keepdims=True))
    return e / e.sum(axis=-1, keepdims=True)


def keep_nucleus(logits, p):
    """logits (B,V) -> (B,V): outside the smallest set of likeliest tokens that reaches p, each becomes -inf"""
    order = np.argsort(-logits, axis=-1)
    descending = probabilities(np.take_along_axis(logits, order, axis=-1))
    mass_before = descending.cumsum(axis=-1) - descending
    inside = mass_before < p
    return np.where(inside, logits, -np.inf)


# --- the judge: nothing below is yours --------------------------------------------------------------------------------


if __name__ == "__main__":
    example = np.array([[0.5, 0.25, 0.15, 0.1]])
    for p, n in ((0.4, 1), (0.6, 2), (0.8, 3), (0.95, 4)):
        kept = keep_nucleus(np.log(example), p)[0] > -np.inf
        if not (kept[:n].all() and kept.sum() == n):
            raise SystemExit(f"now the author's example is wrong: p = {p} should keep the first {n}")
    rng = np.random.default_rng(0)
    many = rng.dirichlet(np.ones(9), size=100)
    answer = keep_nucleus(np.log(many), 0.8)
    kept = answer > -np.inf
    if not np.array_equal(answer[kept], np.log(many)[kept]):
        raise SystemExit("not yet: what stays must keep its logit, and all others become -inf")
    for row, stays in zip(many, kept, strict=True):
        mass = row[stays].sum()
        if mass < 0.8 or mass - row[stays].min() >= 0.8 or row[stays].min() < row[~stays].max(initial=0):
            raise SystemExit(
                f"not yet: of the probabilities {row.round(2)}, p = 0.8 keeps number {np.flatnonzero(stays)}, "
                f"which hold {mass:.2f} together"
            )
    print("right: each of 100 nuclei holds 0.8, would not without its last token, and leaves out none that is likelier")
    raise SystemExit(0)

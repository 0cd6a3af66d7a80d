"""Exercise 37: find the bug (lesson 37). A cache whose heads read the keys of another group.

Six heads of queries share two heads of keys and values, three each. `read` computes what a new token's heads read from
a cache. Its shapes are right, each row of its shares adds up to 1, the model writes text, and the text is nonsense.
Mend `read`; run this file again.

Judge it:  python lessons/exercises/37_find_the_bug.py
"""

import numpy as np


def read(q, k, v):
    """q (NH,D) of one new token, k and v (G,P,D) from the cache -> (NH,D)"""
    n_head, size = q.shape
    n_groups = len(k)
    out = np.empty_like(q)
    for head in range(n_head):
        group = head % n_groups
        scores = k[group] @ q[head] / np.sqrt(size)
        e = np.exp(scores - scores.max())
        p = e / e.sum()
        out[head] = p @ v[group]
    return out


# --- the judge: nothing below is yours --------------------------------------------------------------------------------


def expected(q, k, v):
    """The same with a copy of the keys and values for each head: a group has consecutive heads."""
    times = len(q) // len(k)
    k, v = k.repeat(times, axis=0), v.repeat(times, axis=0)
    scores = (k @ q[..., None])[..., 0] / np.sqrt(q.shape[-1])
    e = np.exp(scores)
    p = e / e.sum(axis=-1, keepdims=True)
    return (p[:, None] @ v)[:, 0]


def main() -> int:
    """Judge `read`; the exit status."""
    rng = np.random.default_rng(0)
    right = True
    for n_head, n_groups in ((6, 2), (9, 3), (4, 4), (4, 1)):
        q, k, v = rng.normal(size=(n_head, 8)), rng.normal(size=(n_groups, 5, 8)), rng.normal(size=(n_groups, 5, 8))
        found, wanted = read(q, k, v), expected(q, k, v)
        wrong = [head for head in range(n_head) if np.abs(found[head] - wanted[head]).max() > 1e-9]
        told = "right" if not wrong else f"wrong in the heads {', '.join(map(str, wrong))}"
        print(f"{n_head} heads of queries, {n_groups} of keys: {told}")
        right = right and not wrong
    print("mended: each head reads its own group" if right else "this is not right yet")
    return 0 if right else 1


if __name__ == "__main__":
    raise SystemExit(main())

"""Exercise 27: find the bug (lesson 27). Spans with an edge that is covered.

The author draws spans until n tokens are covered: no token is in two spans, and none is the first or the last of the
text. The training runs. But the loss of the boundary objective stays higher than that of a colleague, who has the same
model. Print the spans of some texts and look at the two tokens beside each. Mend `spans_of`; run this file again.

Judge it:  python lessons/exercises/27_find_the_bug.py
"""

import numpy as np

LENGTHS = np.arange(1, 11)
CHANCES = 0.8**LENGTHS / (0.8**LENGTHS).sum()


def spans_of(t, n, seed):
    """Spans (start, end) in a text of t tokens, n tokens together; end is the place behind the last token."""
    rng = np.random.default_rng(seed)
    free = np.ones(t, bool)
    found = []
    while n > 0:
        length = min(int(rng.choice(LENGTHS, p=CHANCES)), n)
        starts = [start for start in range(1, t - length) if free[start : start + length].all()]
        if not starts:
            continue
        start = int(rng.choice(starts))
        found.append((start, start + length))
        free[start : start + length] = False
        n -= length
    return found


# --- the judge: nothing below is yours --------------------------------------------------------------------------------


def main() -> int:
    """Judge the spans of 300 texts; the exit status."""
    t, n = 60, 12
    lengths, edges, wrong_number = [], [], 0
    for seed in range(300):
        spans = spans_of(t, n, seed)
        covered = np.zeros(t, int)
        for start, end in spans:
            covered[start:end] += 1
            lengths.append(end - start)
        edges += [covered[place] for start, end in spans for place in (start - 1, end)]
        wrong_number += covered.sum() != n or covered.max() > 1
    print(f"{len(lengths)} spans, {np.mean(lengths):.1f} tokens on average; of {len(edges)} edges "
          f"{np.count_nonzero(edges)} are covered")  # fmt: skip
    right = not any(edges) and not wrong_number and 2.5 < np.mean(lengths) < 4
    print("mended: each span has two edges that can be seen" if right else "this is not right yet")
    return 0 if right else 1


if __name__ == "__main__":
    raise SystemExit(main())

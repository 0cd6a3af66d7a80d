"""Exercise 35: find the bug (lesson 35, section 6). An EM whose likelihood rises at every step, and rises too far.

The text is that of the lesson: six words, 19 in all, and the same 42 pieces. The author printed the log-likelihood
before each step, saw it rise, and was content. But the EM of the lesson comes to -51.380 and stays there, and this one
comes to -33.162. It is no better method: what it computes is no probability. What must be true of the probabilities
after each step? Print it. Then correct `step`, in one place; run this file again.

Judge it:  python lessons/exercises/35_find_the_bug.py
"""

import numpy as np


def step(word_counts, p):
    """word_counts {word: how often}, p {piece: probability} -> (log-likelihood under p, the probabilities after it)"""
    counts = dict.fromkeys(p, 0.0)
    log_likelihood = 0.0
    for word, n in word_counts.items():
        places = len(word) + 1
        arrows = [(i, j, word[i:j]) for i in range(places) for j in range(i + 1, places) if word[i:j] in p]
        before = np.zeros(places)
        after = np.zeros(places)
        before[0] = after[-1] = 1
        for begin, end, piece in arrows:
            before[end] += before[begin] * p[piece]
        for begin, end, piece in reversed(arrows):
            after[begin] += p[piece] * after[end]
        log_likelihood += n * np.log(before[-1])
        for begin, end, piece in arrows:
            counts[piece] += n * before[begin] * p[piece] * after[end] / before[-1]
    total = sum(word_counts.values())
    return log_likelihood, {piece: count / total for piece, count in counts.items()}


# --- the judge: nothing below is yours --------------------------------------------------------------------------------

SIX = {"low": 5, "lower": 2, "newest": 6, "widest": 3, "lowest": 1, "wider": 2}


def equal_parts(longest):
    """All parts of the six words of up to so many characters, equally likely."""
    parts = {word[i : i + n] for word in SIX for i in range(len(word)) for n in range(1, longest + 1)}
    return {part: 1 / len(parts) for part in sorted(parts)}


def main() -> int:
    """Judge the steps; the exit status."""
    p = equal_parts(4)
    likelihoods = []
    for number in range(1, 13):
        log_likelihood, p = step(SIX, p)
        likelihoods.append(float(log_likelihood))
        print(f"step {number:2}: log-likelihood {log_likelihood:8.3f}")
    right = np.allclose([likelihoods[i] for i in (0, 1, 5, 11)], [-105.652495, -73.740804, -54.628010, -51.380442])
    right = right and np.isclose(sum(p.values()), 1) and np.isclose(p["est"], 10 / 33, atol=1e-6)
    counts_of_low = {"l": 7, "o": 1, "w": 7, "lo": 6, "ow": 6, "low": 36}
    _, after_one = step({"low": 1}, dict.fromkeys(counts_of_low, 1 / 6))
    for piece, parts_of_63 in counts_of_low.items():
        right = right and np.isclose(after_one[piece], parts_of_63 / 63)
    print("right: a likelihood that rises, for the right reason" if right else "this is not right yet")
    return 0 if right else 1


if __name__ == "__main__":
    raise SystemExit(main())

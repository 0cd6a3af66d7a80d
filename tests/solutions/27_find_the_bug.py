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
        free[start - 1 : start + length + 1] = False
        n -= length
    return found

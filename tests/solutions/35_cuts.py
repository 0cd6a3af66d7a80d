import numpy as np


def forward(arrows, n):
    """[place]: the log of the summed probability of all rows of arrows from 0 to it."""
    sums = np.full(n + 1, -np.inf)
    sums[0] = 0.0
    for begin, end, score in arrows:
        sums[end] = np.logaddexp(sums[end], sums[begin] + score)
    return sums


def backward_sums(arrows, n):
    """[place]: the log of the summed probability of all rows of arrows from it to n. Same form as `forward`."""
    sums = np.full(n + 1, -np.inf)
    sums[n] = 0.0
    for begin, end, score in reversed(arrows):
        sums[begin] = np.logaddexp(sums[begin], score + sums[end])
    return sums


def cuts(arrows, n):
    """[place]: how likely it is that a way goes through it, a probability. At places 0 and n that is 1."""
    before = forward(arrows, n)
    return np.exp(before + backward_sums(arrows, n) - before[n])


def best_two(arrows, n):
    """The scores of the best way and of the second best, as a list; -np.inf for a way that does not exist.

    Viterbi keeps the best way to each place. How many must you keep? Two ways may have the same score.
    """
    best = [[0.0, -np.inf], *([-np.inf, -np.inf] for _ in range(n))]
    for begin, end, score in arrows:
        reached = [before + score for before in best[begin]]
        best[end] = sorted(best[end] + reached, reverse=True)[:2]
    return best[n]

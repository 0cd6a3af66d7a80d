import numpy as np

STUDENT = 2.776  # for five pairs, 4 degrees of freedom


def interval(one, other):
    """one, other (seeds, tasks): points -> the mean difference, and half of its 95 % interval"""
    paired = (one - other).mean(axis=1)
    half = STUDENT * paired.std(ddof=1) / np.sqrt(paired.size)
    return paired.mean(), half

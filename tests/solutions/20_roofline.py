import numpy as np

RATE, MEMORY = 8.1e12, 320e9  # published peaks of a T4: operations and bytes per second
DECODED = 24 * 768 * 768  # operations of one token in one block of GPT-2 small: lesson 17, without attention


def adam(n):
    """(bytes, operations) of an update of n weights: w, g, m, v are read; w, m, v are written.

    m = b1 m + (1 - b1) g;   v = b2 v + (1 - b2) g g;   w = w - lr m / (sqrt(v) + eps)

    Count multiplications, additions, subtractions, divisions and roots of numbers that belong to a weight; (1 - b1) and
    (1 - b2) are known before.
    """
    return 7 * 4 * n, 12 * n


def lookup(tokens, columns):
    """(bytes, operations) of an embedding: ids (tokens,) of 8 bytes each; a row of the table is copied for each id."""
    return 8 * tokens + 2 * 4 * tokens * columns, 0


def least_seconds(moved, work):
    """The least time on a T4: what limits, memory or arithmetic?"""
    return max(moved / MEMORY, work / RATE)


def one_token_intensity(batch):
    """Operations per byte of a block of GPT-2 small that generates one token for each of `batch` texts.

    DECODED operations for each text. Its 12 x 768 x 768 weights are read once for all texts; activations are small, and
    are left out.
    """
    return batch * DECODED / (4 * 12 * 768 * 768)

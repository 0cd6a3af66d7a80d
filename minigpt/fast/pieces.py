"""What all of these files need: pieces that stay in the cache, sums as products, and which arrays are theirs."""

import numpy as np

from minigpt.backend import share

PIECE = 1 << 16  # elements: three or four pieces of float32 fit into the second-level cache of one core


def ours(*arrays) -> bool:
    """All of them NumPy arrays of one dtype, float32 or float64?"""
    dtype = getattr(arrays[0], "dtype", None)
    return dtype in (np.float32, np.float64) and all(type(a) is np.ndarray and a.dtype == dtype for a in arrays)


def over(body, rows: slice, width: int) -> list:
    """[body(piece), ...] for slices that cover these rows of `width` elements, each of about PIECE elements."""
    step = max(1, PIECE // max(1, width))
    return [body(slice(i, min(i + step, rows.stop))) for i in range(rows.start, rows.stop, step)]


def share_over(body, n: int, width: int) -> list:
    """The same for n rows, which are first shared out among the threads."""
    return sum(share(lambda rows: over(body, rows, width), n, work=n * width), [])


def products(n: int, *matrices) -> int:
    """The work of multiplying n rows with matrices, in numbers touched one after the other (measured)."""
    return n * sum(w.size for w in matrices) // 128


def row_sums(x):
    """x (N,C) -> (N,1): the sum of each row."""
    return (x @ np.ones(x.shape[1], x.dtype))[:, None]


def column_sums(x):
    """x (N,C) -> (C,): the sum of each column."""
    return np.ones(len(x), x.dtype) @ x

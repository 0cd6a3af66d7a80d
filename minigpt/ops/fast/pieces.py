"""What all of these files need: pieces that stay in the cache, sums as products, and which arrays they take."""

import numpy as np

from minigpt.device.threads import share

PIECE = 1 << 18  # elements, 1 MB of float32: smaller ones fit a smaller cache, but two threads then quarrel over Python
FEW = 8  # with so many rows a product is mostly the reading of its matrix
ROWS = 16  # of a matrix, that meet few rows at once
COLUMNS = 1 << 10  # of a transposed matrix, that meet one row at once
TALL = 1 << 7  # with fewer rows threads take columns of the matrix instead: each reads only its own


def accepts(*arrays) -> str | None:
    """None where all of them are NumPy arrays of one dtype, float32 or float64; otherwise the reason why not."""
    if not arrays:
        return "it takes arrays"
    dtype = arrays[0].dtype
    if dtype not in (np.float32, np.float64):
        return f"it takes float32 and float64, not {dtype}"
    for array in arrays:
        if type(array) is not np.ndarray:
            return f"it takes NumPy arrays, not {type(array).__name__}"
        if array.dtype != dtype:
            return f"it takes arrays of one dtype, not {dtype} and {array.dtype}"
    return None


def over(body, rows: slice, width: int) -> list:
    """[body(piece), ...] for slices that cover these rows of `width` elements, each of about PIECE elements."""
    step = max(1, PIECE // max(1, width))
    return [body(slice(i, min(i + step, rows.stop))) for i in range(rows.start, rows.stop, step)]


def share_over(body, n: int, width: int) -> list:
    """The same for n rows, which are first shared out among the threads."""
    return sum(share(lambda rows: over(body, rows, width), n, work=n * width), [])


def products(n: int, *matrices) -> int:
    """The work of multiplying n rows with matrices, in numbers touched one after the other (measured).

    For a few rows the matrices are read from memory, which takes as long as multiplying them with 16 rows.
    """
    return max(n, 16) * sum(w.size for w in matrices) // 128


def product(x, w, out):
    """x (N,I), w (I,O) -> out (N,O), which gets x w

    One row is multiplied at the speed of memory. For more rows BLAS first copies w into an order of its own, but small
    matrices it takes as they are; so for a few rows w is given to it in pieces.
    """
    n = len(x)
    if 1 < n <= FEW and w.strides[0] < w.strides[1]:  # transposed, as the head is: some columns at a time
        step = COLUMNS // n
        for j in range(0, w.shape[1], step):
            np.matmul(x, w[:, j : j + step], out=out[:, j : j + step])
    elif 1 < n <= FEW and len(w) % ROWS == 0:  # some rows at a time
        parts = x.reshape(n, -1, ROWS).swapaxes(0, 1) @ w.reshape(-1, ROWS, w.shape[1])
        np.add.reduce(parts, axis=0, out=out)
    else:
        np.matmul(x, w, out=out)
    return out


def row_sums(x):
    """x (N,C) -> (N,1): the sum of each row."""
    return (x @ np.ones(x.shape[1], x.dtype))[:, None]


def column_sums(x):
    """x (N,C) -> (C,): the sum of each column."""
    return np.ones(len(x), x.dtype) @ x

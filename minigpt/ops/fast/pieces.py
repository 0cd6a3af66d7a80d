"""What all of these files need: pieces that stay in the cache, sums as products, and which arrays are supported."""

import functools

import numpy as np

from minigpt.device.threads import TINY, share

PIECE = 1 << 18  # elements, 1 MB of float32: smaller ones fit a smaller cache, but two threads wait for Python's lock
PASS = 2  # elements of a few quick passes, as in LayerNorm, that count as one of `share`
FEW = 8  # rows: a product with so few spends most of its time on reading the matrix
ROWS = 8  # of a matrix that are multiplied at a time with a few rows
COLUMNS = 1 << 10  # of a transposed matrix that are multiplied at a time with one row
TALL = 1 << 7  # rows from which on threads share the rows; below, each takes columns of the matrix and reads only those


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
    results = []
    for piece in in_steps(rows, step):
        results.append(body(piece))
    return results


def in_steps(whole: slice, step: int) -> list[slice]:
    """Slices of `step` numbers, the last one shorter, that cover this slice."""
    slices = []
    for start in range(whole.start, whole.stop, step):
        slices.append(slice(start, min(start + step, whole.stop)))
    return slices


def share_over(body, n: int, width: int) -> list:
    """The same for n rows of `width` elements; if they are many, they are first divided among the threads."""
    if n * width < TINY:
        return [body(slice(0, n))]

    def part(rows):
        return over(body, rows, width)

    results = []
    for of_one_thread in share(part, n, work=n * width // PASS):
        results += of_one_thread
    return results


def products(n: int, *matrices) -> int:
    """Cost of an (n,I) (I,O) product for each of these matrices (I,O), in elements of one sequential pass (measured).

    For a few rows the matrices are read from memory, which takes as long as multiplying them with 16 rows.
    """
    elements = 0
    for matrix in matrices:
        elements += matrix.size
    return max(n, 16) * elements // 128


def product(x, w, out):
    """x (N,I), w (I,O) -> out (N,O), which is overwritten with x w

    One row is multiplied at the speed of memory. For more rows BLAS first copies w into a layout of its own, but not
    where w is small; so for a few rows w is passed to it in pieces.
    """
    few = 1 < len(x) <= FEW
    if few and is_transposed(w):
        _product_by_columns(x, w, out)
    elif few and len(w) % ROWS == 0:
        _product_by_rows(x, w, out)
    else:
        np.matmul(x, w, out=out)
    return out


def product_of_few(x, w):
    """x (N,I), w (I,O) -> x w (N,O), for a few rows: a thread reads some rows of w; its products are one term of out"""
    step = ROWS if len(w) % ROWS == 0 else 1

    def part(groups):
        inputs = slice(groups.start * step, groups.stop * step)
        term = np.empty((len(x), w.shape[1]), x.dtype)
        return product(x[:, inputs], w[inputs], term)

    terms = share(part, len(w) // step, work=products(len(x), w))
    return functools.reduce(np.add, terms)


def is_transposed(w):
    """Is each column of w, and not each row, in one piece of memory, as of the weights of the head?"""
    return w.strides[0] < w.strides[1]


def _product_by_columns(x, w, out):
    """The product, some columns of w at a time."""
    step = COLUMNS // len(x)
    for columns in in_steps(slice(0, w.shape[1]), step):
        np.matmul(x, w[:, columns], out=out[:, columns])


def _product_by_rows(x, w, out):
    """The product, ROWS rows of w at a time: the products of these are summed."""
    x_parts = x.reshape(len(x), -1, ROWS)
    x_parts = x_parts.swapaxes(0, 1)
    w_parts = w.reshape(-1, ROWS, w.shape[1])
    np.add.reduce(x_parts @ w_parts, axis=0, out=out)


def row_sums(x):
    """x (N,C) -> (N,1): the sum of each row."""
    return (x @ _ones(x.shape[1], x.dtype))[:, None]


def column_sums(x):
    """x (N,C) -> (C,): the sum of each column."""
    return _ones(len(x), x.dtype) @ x


@functools.lru_cache(maxsize=64)
def _ones(n, dtype):
    """n ones, of which a product with them makes a sum. They are made once: a small step has some fifty such sums."""
    ones = np.ones(n, dtype)
    ones.flags.writeable = False
    return ones

"""Sums of rows that belong together, and products of several matrices at once, as NumPy and CuPy compute them.

Some relatives of GPT need them. They call `ops.sum_rows` and `ops.batched_product`, which know what CuPy lacks.
"""

from minigpt.device.arrays import Array, array_module


def batched_product(a: Array, b: Array) -> Array:
    """The product of each matrix of a (*,M,K) with that of b (*,K,N): (*,M,N). Leading axes are broadcast.

    Not a pair: the gradients of a product are products again, dout b^T and a^T dout.
    """
    return a @ b


def sum_rows(rows: Array, ids: Array, n: int) -> Array:
    """rows (N,C), ids (N,) int from 0 to n - 1 -> sums (n,C): of the rows of each id, 0 where there are none

    Not a pair: it undoes that rows were taken from a table of n, and nothing flows back through it.
    """
    xp = array_module(rows)
    sums = xp.zeros((n, rows.shape[1]), rows.dtype)
    xp.add.at(sums, ids, rows)
    return sums

"""Row-major arrays as the column-major matrices of cuBLASLt: which ones it can take as they lie."""

from typing import NamedTuple

import numpy as np

from minigpt.ops.cuda import kernels

CUBLAS_OP_N, CUBLAS_OP_T = 0, 1  # of cublas_api.h


class Matrix(NamedTuple):
    """A row-major array as a column-major matrix: its transpose, or, where `turned` is 1, the transpose of that."""

    dtype: np.dtype
    rows: int
    columns: int
    leading: int  # numbers from one column to the next
    turned: int  # CUBLAS_OP_N or CUBLAS_OP_T
    alignment: int  # of its address, in bytes


def alignment_of(address) -> int:
    """The largest power of 2 that divides an address, up to 256: cuBLASLt uses no larger one."""
    return min(256, address & -address)


def as_stored(b, a, out, aux) -> list[Matrix] | None:
    """Arrays as cuBLASLt's A, B, D and, if there is one, aux; None where it cannot take one of them as it lies."""
    given = [b, a, out] if aux is None else [b, a, out, aux]
    matrices = [matrix for matrix in map(_matrix, given) if matrix is not None]
    if len(matrices) < len(given):
        return None
    for written in matrices[2:]:
        if written.turned or written.dtype != out.dtype:
            return None
    if aux is not None and matrices[3].leading % 8:
        return None
    return matrices


def _matrix(x) -> Matrix | None:
    """How cuBLASLt sees a row-major array; None where neither its rows nor its columns are contiguous."""
    rows, columns = x.shape
    size = x.itemsize
    down, along = x.strides
    alignment = alignment_of(kernels.address(x))
    if along == size and down >= columns * size:
        return Matrix(x.dtype, columns, rows, down // size, CUBLAS_OP_N, alignment)
    if down == size and along >= rows * size:
        return Matrix(x.dtype, rows, columns, along // size, CUBLAS_OP_T, alignment)
    return None

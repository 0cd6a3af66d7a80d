"""Matrix products on a GPU, with what stands right before or behind them.

Operands have two axes. One may be transposed, or a part of the columns of a larger array: only its rows, or only its
columns, must be in one piece.
"""

from minigpt.backend import Array, array_module
from minigpt.fast.cuda.kernels import column_sums, wide

ALIGNED = 64  # numbers: rows that begin at multiples of it are read fastest


def product(a: Array, b: Array, *, bias: Array | None = None, out: Array | None = None, dtype=None) -> Array:
    """a (M,K), b (K,N), bias (N,) -> a b + bias (M,N), of dtype (or that of a), or in out."""
    xp = array_module(a)
    if out is None:
        out = xp.empty((a.shape[0], b.shape[1]), dtype or a.dtype)
    if out.dtype == a.dtype and bias is None:
        return xp.matmul(a, b, out=out)
    computed = wide(a.dtype)  # rounded once, at the end
    result = a.astype(computed, copy=False) @ b.astype(computed, copy=False)
    out[...] = result if bias is None else result + bias
    return out


def weight_gradients(x: Array, dout: Array, bias: bool = True) -> tuple[Array, Array | None]:
    """x (N,I), dout (N,O) -> x^T dout (I,O) and, if there is a bias, the column sums of dout (O,): both wide"""
    dw = product(x.T, dout, dtype=wide(x.dtype))
    return dw, column_sums(array_module(x).ascontiguousarray(dout)[None])[0] if bias else None


def padded(xp, rows: int, columns: int, dtype) -> Array:
    """An array (rows,columns+), without its values, whose rows begin at multiples of ALIGNED."""
    return xp.empty((rows, -(-columns // ALIGNED) * ALIGNED), dtype)

"""Matrix products on a GPU, with what stands right before or behind them.

Operands have two axes. One may be transposed, or a part of the columns of a larger array: only its rows, or only its
columns, must be in one piece. cuBLASLt makes the products. Where it cannot, CuPy's product and our kernels do.
"""

import functools
import warnings

import numpy as np

from minigpt.device import gpu
from minigpt.device.arrays import Array, array_module
from minigpt.ops.cuda import cublaslt
from minigpt.ops.cuda.cublaslt import Epilogue
from minigpt.ops.cuda.gelu import gelu, gelu_slope
from minigpt.ops.cuda.kernels import column_sums, wide

ALIGNED = 64  # numbers: rows that begin at multiples of it are read fastest
EXACT = {"float32": 1e-5, "float64": 1e-12, "bfloat16": 2**-7}  # how far a product may be off, of its largest number
EXACT_TF32 = 2e-3

by_cublaslt = True  # if it is there
FAILED = set()  # kinds of products that are left to CuPy from then on


def product(a: Array, b: Array, *, bias: Array | None = None, out: Array | None = None, add: bool = False) -> Array:
    """a (M,K), b (K,N), bias (N,) -> a b + bias (M,N), in out if that is given, or added to what is in out."""
    if out is None:
        out = array_module(a).empty((a.shape[0], b.shape[1]), a.dtype)
    _compute(a, b, out, Epilogue.DEFAULT if bias is None else Epilogue.BIAS, bias, add=add)
    return out


def product_gelu(x: Array, w: Array, b: Array) -> tuple[Array, Array]:
    """x (N,I), w (I,O), b (O,) -> gelu(f) and f = x w + b: both (N,O)"""
    a, f = (array_module(x).empty((len(x), w.shape[1]), x.dtype) for _ in range(2))
    _compute(x, w, a, Epilogue.GELU_AUX_BIAS, b, f)
    return a, f


def product_gelu_backward(da: Array, w: Array, f: Array) -> Array:
    """da (N,I), w (I,O), f (N,O) -> (da w) gelu'(f) (N,O)"""
    df = array_module(f).empty_like(f)
    _compute(da, w, df, Epilogue.DGELU, aux=f)
    return df


def weight_gradients(x: Array, dout: Array, bias: bool = True) -> tuple[Array, Array | None]:
    """x (N,I), dout (N,O) -> x^T dout (I,O) and, if there is a bias, the column sums of dout (O,): both wide"""
    xp, dtype = array_module(x), wide(x.dtype)
    dw, db = xp.empty((x.shape[1], dout.shape[1]), dtype), xp.empty(dout.shape[1], dtype) if bias else None
    _compute(x.T, xp.ascontiguousarray(dout), dw, Epilogue.BGRADA if bias else Epilogue.DEFAULT, db)
    return dw, db


def padded(xp, rows: int, columns: int, dtype) -> Array:
    """An array (rows,columns+), without its values, whose rows begin at multiples of ALIGNED."""
    return xp.empty((rows, -(-columns // ALIGNED) * ALIGNED), dtype)


def _compute(a, b, out, epilogue, bias=None, aux=None, add=False):
    """By cuBLASLt where it is there, has an algorithm and has never failed with such a product; else the plain way."""
    global by_cublaslt
    xp = array_module(out)
    bias = bias if bias is None else xp.ascontiguousarray(bias)
    kind = by_cublaslt and (gpu.current_stream()[0], gpu.tf32, epilogue, a.dtype, out.dtype)
    if kind and kind not in FAILED:
        try:
            if _agrees(xp, *kind, bias is not None, aux is not None, add):
                if cublaslt.multiply(a, b, out, epilogue, bias, aux, add):
                    return
        except (ImportError, OSError, RuntimeError) as error:
            FAILED.add(kind)
            by_cublaslt = isinstance(error, RuntimeError)  # otherwise there is no such library
            warnings.warn(f"no {epilogue.name} in {a.dtype} by cuBLASLt, CuPy may be slower: {error}", stacklevel=3)
    _compute_plainly(a, b, out, epilogue, bias, aux, add)


def _compute_plainly(a, b, out, epilogue, bias, aux, add):
    """What cuBLASLt makes of these, by a simpler product and a kernel, or by CuPy's product."""
    computed = wide(a.dtype)
    if epilogue == Epilogue.GELU_AUX_BIAS:
        gelu(product(a, b, bias=bias, out=aux), out)
    elif epilogue == Epilogue.DGELU:
        gelu_slope(product(a, b, out=out), aux, out)
    elif epilogue == Epilogue.BGRADA:
        product(a, b, out=out)
        bias[...] = column_sums(b[None])[0]
    elif bias is None and out.dtype == a.dtype and not add:
        array_module(a).matmul(a, b, out=out)
    else:  # rounded once, at the end
        result = a.astype(computed, copy=False) @ b.astype(computed, copy=False)
        result = result if bias is None else result + bias
        out[...] = result + out if add else result


@functools.cache
def _agrees(xp, device, tf32, epilogue, dtype, result, with_bias, with_aux, add) -> bool:
    """Does cuBLASLt make a product of this kind as exactly as its dtype allows? Asked once, of a small one.

    What it makes otherwise is left to the plain way, as is what it has no algorithm for even here. This once the GPU
    is waited for: a kind of product must have been made before a CUDA graph is recorded.
    """
    draw = np.random.default_rng(0).standard_normal
    shapes = {(64, 32): dtype, (32, 128): dtype, (64, 128): result, (128,): result}
    a, b, aux, bias = (xp.asarray(draw(shape).astype(kind)) for shape, kind in shapes.items())
    arrays = a, b, xp.ones_like(aux), bias if with_bias else None, aux if with_aux else None
    exact = [None if x is None else x.astype(np.float64) for x in arrays]
    if not cublaslt.multiply(*arrays[:3], epilogue, *arrays[3:], add):
        return False
    _compute_plainly(*exact[:3], epilogue, *exact[3:], add)
    pairs = [(x.astype(np.float64), y) for x, y in zip(arrays[2:], exact[2:], strict=True) if y is not None]
    errors = [float(abs(x - y).max() / abs(y).max()) for x, y in pairs]
    exactly = all(e <= (EXACT_TF32 if tf32 and dtype == np.float32 else EXACT[result.name]) for e in errors)
    if not exactly:
        warnings.warn(f"cuBLASLt is not used for {epilogue.name} in {dtype}: it is off by {errors}", stacklevel=4)
    return exactly

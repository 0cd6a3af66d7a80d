"""Matrix products on a GPU, with what happens to a product before it is written: a bias is added, GELU applied.

Operands have two axes. One may be transposed, or be some columns of a larger array: only its rows, or only its
columns, must be contiguous. cuBLASLt computes the products; where it cannot, CuPy's product and kernels do.
"""

import functools
import warnings
from typing import NamedTuple

import numpy as np

from minigpt.device import gpu
from minigpt.device.arrays import Array, array_module
from minigpt.ops.cuda import algorithms, cublaslt
from minigpt.ops.cuda.activations import activate, activate_backward
from minigpt.ops.cuda.cublaslt import Epilogue
from minigpt.ops.cuda.kernels import column_sums, wide

ALIGNED = 64  # numbers: rows that begin at multiples of it are read fastest
TOLERANCE = {"float32": 1e-5, "float64": 1e-12, "bfloat16": 2**-7}  # the error allowed, relative to the largest number
TOLERANCE_TF32 = 2e-3

by_cublaslt = True  # False once the library is found to be missing
bgrada_is_faster = {}  # {what is known of two arrays: are the gradients of weight and bias faster by BGRADA?}
FAILED = set()  # kinds of products in which a call of cuBLASLt has failed: CuPy computes these from then on


class Kind(NamedTuple):
    """What cuBLASLt is trusted with, or not, as a whole."""

    device: int
    tf32: bool
    epilogue: Epilogue
    dtype: np.dtype
    result: np.dtype


def product(a: Array, b: Array, *, bias: Array | None = None, out: Array | None = None, add: bool = False) -> Array:
    """a (M,K), b (K,N), bias (N,) -> out (M,N), which is a b + bias

    out: an array to write to; None makes one. add: the result is added to the numbers in out instead.
    """
    if out is None:
        out = array_module(a).empty((a.shape[0], b.shape[1]), a.dtype)
    epilogue = Epilogue.DEFAULT if bias is None else Epilogue.BIAS
    _compute(a, b, out, epilogue, bias, add=add)
    return out


def product_gelu(x: Array, w: Array, b: Array) -> tuple[Array, Array]:
    """x (N,I), w (I,O), b (O,) -> gelu(f) (N,O) and f = x w + b (N,O)"""
    f = array_module(x).empty((len(x), w.shape[1]), x.dtype)
    a = array_module(x).empty_like(f)
    _compute(x, w, a, Epilogue.GELU_AUX_BIAS, b, f)
    return a, f


def product_gelu_backward(da: Array, w: Array, f: Array) -> Array:
    """da (N,I), w (I,O), f (N,O) -> (da w) gelu'(f) (N,O)"""
    df = array_module(f).empty_like(f)
    _compute(da, w, df, Epilogue.DGELU, aux=f)
    return df


def weight_gradients(x: Array, dout: Array, bias: bool = True) -> tuple[Array, Array | None]:
    """x (N,I), dout (N,O) -> x^T dout (I,O) and the column sums of dout (O,), or None where bias is False

    Both in the dtype that `wide` gives.
    """
    xp = array_module(x)
    dout = xp.ascontiguousarray(dout)
    if not bias:
        return _weight_gradient(x, dout), None
    if not by_cublaslt:
        return _product_then_sums(x, dout)
    device, _ = gpu.current_stream()
    key = device, gpu.products_are_tf32(), x.dtype, x.shape, dout.shape
    if key not in bgrada_is_faster:
        bgrada_is_faster[key] = _bgrada_is_faster(x, dout, device)
    way = _by_bgrada if bgrada_is_faster[key] else _product_then_sums
    return way(x, dout)


def _weight_gradient(x, dout):
    """x (N,I), dout (N,O) -> x^T dout (I,O)"""
    return product(x.T, dout, out=array_module(x).empty((x.shape[1], dout.shape[1]), wide(x.dtype)))


def _product_then_sums(x, dout):
    """x (N,I), dout (N,O) -> x^T dout (I,O) and the column sums of dout (O,), which a kernel of ours reads again"""
    return _weight_gradient(x, dout), column_sums(dout[None])[0]


def _by_bgrada(x, dout):
    """x (N,I), dout (N,O) -> the same by one call of cuBLASLt, which may be one kernel or several: it does not say"""
    xp = array_module(x)
    dw = xp.empty((x.shape[1], dout.shape[1]), wide(x.dtype))
    db = xp.empty(dout.shape[1], dw.dtype)
    _compute(x.T, dout, dw, Epilogue.BGRADA, db)
    return dw, db


def _bgrada_is_faster(x, dout, device) -> bool:
    """Are both gradients computed faster by BGRADA than by a product and `column_sums`? True where it is not timed."""
    rows, inputs = x.shape
    outputs = dout.shape[1]
    if not algorithms.are_timed(rows * inputs * outputs):
        return True
    ways = {"BGRADA": lambda: _by_bgrada(x, dout), "column sums": lambda: _product_then_sums(x, dout)}
    what = "gradients of weight and bias", gpu.products_are_tf32(), x.dtype.name, rows, inputs, outputs
    try:
        kind = algorithms.kind_of(device, cublaslt.version(), *what)
        way = algorithms.kept(kind)
        if way not in ways:
            way = algorithms.fastest(kind, ways)
    except cublaslt.FAILURES:  # `_compute` warns where cuBLASLt is missing
        return True
    return way != "column sums"


def padded(xp, rows: int, columns: int, dtype) -> Array:
    """An array of `rows` rows and at least `columns` columns, not filled, whose rows begin at multiples of ALIGNED."""
    return xp.empty((rows, -(-columns // ALIGNED) * ALIGNED), dtype)


def _compute(a, b, out, epilogue, bias=None, aux=None, add=False):
    """Write the product and what its epilogue makes of it: by cuBLASLt where it can be trusted, else without it."""
    if bias is not None and not bias.flags.c_contiguous:
        bias = array_module(out).ascontiguousarray(bias)
    if by_cublaslt and _computed_by_cublaslt(a, b, out, epilogue, bias, aux, add):
        return
    _compute_plainly(a, b, out, epilogue, bias, aux, add)


def _computed_by_cublaslt(a, b, out, epilogue, bias, aux, add) -> bool:
    """False where cuBLASLt has no algorithm, is not exact enough, or has ever failed with a product of this kind."""
    global by_cublaslt
    device, _ = gpu.current_stream()
    kind = Kind(device, gpu.products_are_tf32(), epilogue, a.dtype, out.dtype)
    if FAILED and kind in FAILED:
        return False
    try:
        exact = _is_exact(array_module(out), kind, bias is not None, aux is not None, add)
        return exact and cublaslt.multiply(a, b, out, epilogue, bias, aux, add)
    except cublaslt.FAILURES as error:
        FAILED.add(kind)
        if not isinstance(error, RuntimeError):
            by_cublaslt = False  # there is no such library
        warning = f"no {epilogue.name} in {a.dtype} by cuBLASLt, CuPy may be slower: {error}"
        warnings.warn(warning, stacklevel=4)
        return False


def _compute_plainly(a, b, out, epilogue, bias, aux, add):
    """The same by a simpler product and a kernel, or by CuPy's product."""
    if epilogue == Epilogue.GELU_AUX_BIAS:
        activate("gelu", product(a, b, bias=bias, out=aux), out)
    elif epilogue == Epilogue.DGELU:
        activate_backward("gelu", product(a, b, out=out), aux, out)
    elif epilogue == Epilogue.BGRADA:
        product(a, b, out=out)
        bias[...] = column_sums(b[None])[0]
    elif bias is None and out.dtype == a.dtype and not add:
        array_module(a).matmul(a, b, out=out)
    else:  # rounded once, at the end
        dtype = wide(a.dtype)
        result = a.astype(dtype, copy=False) @ b.astype(dtype, copy=False)
        if bias is not None:
            result = result + bias
        if add:
            result = result + out
        out[...] = result


@functools.cache
def _is_exact(xp, kind: Kind, with_bias, with_aux, add) -> bool:
    """Does cuBLASLt compute a product of this kind as exactly as its dtype allows? Tested once, on a small product.

    Also False where it has no algorithm for such a product. This test waits for the GPU: so a product of each kind must
    have been computed before a CUDA graph is recorded.
    """
    draw = np.random.default_rng(0).standard_normal
    a = xp.asarray(draw((64, 32)).astype(kind.dtype))
    b = xp.asarray(draw((32, 128)).astype(kind.dtype))
    aux = xp.asarray(draw((64, 128)).astype(kind.result))
    bias = xp.asarray(draw(128).astype(kind.result))
    out = xp.ones_like(aux)
    aux = aux if with_aux else None
    bias = bias if with_bias else None
    exact_a, exact_b, exact_out, exact_bias, exact_aux = [_in_float64(x) for x in (a, b, out, bias, aux)]
    if not cublaslt.multiply(a, b, out, kind.epilogue, bias, aux, add):
        return False
    _compute_plainly(exact_a, exact_b, exact_out, kind.epilogue, exact_bias, exact_aux, add)
    errors = [_error(out, exact_out)]
    if with_bias:
        errors.append(_error(bias, exact_bias))
    if with_aux:
        errors.append(_error(aux, exact_aux))
    tolerance = TOLERANCE[kind.result.name]
    if kind.tf32 and kind.dtype == np.float32:
        tolerance = TOLERANCE_TF32
    exact = all(error <= tolerance for error in errors)  # NaN is not
    if not exact:
        warning = f"cuBLASLt is not used for {kind.epilogue.name} in {kind.dtype}: it is off by {errors}"
        warnings.warn(warning, stacklevel=5)
    return exact


def _in_float64(array):
    return None if array is None else array.astype(np.float64)


def _error(array, exact) -> float:
    """The largest difference, relative to the largest number."""
    difference = array.astype(np.float64) - exact
    return float(abs(difference).max() / abs(exact).max())

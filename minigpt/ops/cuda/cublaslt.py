"""Matrix products by cuBLASLt, called through ctypes, for CuPy does not offer it.

It makes what CuPy's product cannot: float32 results of bfloat16 inputs, and an epilogue, which is what happens to a
product before it is written: a bias is added, GELU taken. Matrices are column-major there. A row-major array is then
its own transpose, so out = a b is asked for as D = A B with D = out^T, A = b^T, B = a^T. From cublasLt.h and NVIDIA's
manual we rely on this:

- BIAS: as many numbers as D has rows, which are the columns of out, side by side, of D's dtype.
- GELU_AUX_BIAS, DGELU: aux is what GELU was taken of, of D's shape and dtype. Its leading dimension counts numbers
  and is a multiple of 8. That it is the tanh form is not written there, but others build on it: products.py asks.
- BGRADA: sums of A over k, for each row of D, of D's dtype: the column sums of b. A must not be a transposed matrix.
- Epilogues want a column-major D. alpha and beta are read on the host; with beta = 0, C is not read at all.
- The heuristic trusts in 256-byte alignment where it is not told otherwise, for a bias and aux by their addresses.
"""

import ctypes
import enum
import functools
from ctypes import byref, c_char_p, c_double, c_float, c_int, c_int32, c_int64, c_size_t, c_uint32, c_uint64, c_void_p
from typing import NamedTuple

import numpy as np

from minigpt.device import gpu
from minigpt.device.arrays import array_module
from minigpt.ops.cuda import kernels

WORKSPACE = 32 << 20  # bytes, as NVIDIA advises for its H100; others need less

# Names and numbers of library_types.h, cublas_api.h and cublasLt.h.
CUDA_R_32F, CUDA_R_64F, CUDA_R_16BF = 0, 1, 14
CUBLAS_OP_N, CUBLAS_OP_T = 0, 1
CUBLAS_COMPUTE_32F, CUBLAS_COMPUTE_64F, CUBLAS_COMPUTE_32F_FAST_TF32 = 68, 70, 77
CUBLAS_STATUS_SUCCESS, CUBLAS_STATUS_INVALID_VALUE, CUBLAS_STATUS_NOT_SUPPORTED = 0, 7, 15
CUBLASLT_MATMUL_DESC_TRANSA, CUBLASLT_MATMUL_DESC_TRANSB, CUBLASLT_MATMUL_DESC_EPILOGUE = 3, 4, 7
CUBLASLT_MATMUL_DESC_BIAS_POINTER, CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER = 8, 11
CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD = 12
CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK = 1, 3
CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE = 5, 2

TYPES = {  # dtype: of its numbers, of sums, and of alpha and beta
    "float32": (CUDA_R_32F, CUBLAS_COMPUTE_32F, CUDA_R_32F, c_float),
    "float64": (CUDA_R_64F, CUBLAS_COMPUTE_64F, CUDA_R_64F, c_double),
    "bfloat16": (CUDA_R_16BF, CUBLAS_COMPUTE_32F, CUDA_R_32F, c_float),
}
FUNCTIONS = {  # what they take; said, because ctypes would cut an address down to 32 bits
    "cublasLtCreate": [c_void_p],
    "cublasLtMatrixLayoutCreate": [c_void_p, c_int, c_uint64, c_uint64, c_int64],
    "cublasLtMatmulDescCreate": [c_void_p, c_int, c_int],
    "cublasLtMatmulDescSetAttribute": [c_void_p, c_int, c_void_p, c_size_t],
    "cublasLtMatmulPreferenceCreate": [c_void_p],
    "cublasLtMatmulPreferenceSetAttribute": [c_void_p, c_int, c_void_p, c_size_t],
    "cublasLtMatmulAlgoGetHeuristic": [c_void_p] * 7 + [c_int, c_void_p, c_void_p],
    "cublasLtMatmul": [c_void_p] * 14 + [c_size_t, c_void_p],
    "cublasLtGetStatusName": [c_int],
}


class Epilogue(enum.IntEnum):
    """What happens to a product before it is written: CUBLASLT_EPILOGUE_..."""

    DEFAULT, BIAS, GELU_AUX_BIAS, DGELU, BGRADA = 1, 4, 164, 192, 256


class Heuristic(ctypes.Structure):
    """cublasLtMatmulHeuristicResult_t: an algorithm, and what is known of it."""

    _fields_ = [("algo", c_uint64 * 8), ("workspaceSize", c_size_t), ("state", c_int), ("wavesCount", c_float),
                ("reserved", c_int * 4)]  # fmt: skip


class Matrix(NamedTuple):
    """A row-major array as a column-major matrix: its transpose, or, where `turned` is 1, the transpose of that."""

    dtype: np.dtype
    rows: int
    columns: int
    leading: int  # numbers from one column to the next
    turned: int  # CUBLAS_OP_N or CUBLAS_OP_T
    alignment: int


def multiply(a, b, out, epilogue=Epilogue.DEFAULT, bias=None, aux=None, add=False) -> bool:
    """a (M,K), b (K,N) -> out (M,N), with bias (N,) and aux (M,N) as the epilogue reads or writes them.

    add: to the numbers in out.

    False where cuBLASLt has no algorithm, or an array lies in memory as it cannot take it. Raises RuntimeError where a
    call fails; where there is no cuBLASLt, ImportError, OSError or RuntimeError. Nothing waits for the GPU. On each
    device it serves one stream at a time, for the workspace is shared.
    """
    if 0 in a.shape or 0 in b.shape or a.dtype != b.dtype or (bias is not None and bias.dtype != out.dtype):
        return False
    stored = [_as_stored(x) for x in (b, a, out) + (() if aux is None else (aux,))]
    if None in stored:
        return False
    matrices, addresses = zip(*stored, strict=True)
    if any(m.turned or m.dtype != out.dtype for m in matrices[2:]) or (aux is not None and matrices[3].leading % 8):
        return False
    (device, stream), at = gpu.current_stream(), None if bias is None else kernels.address(bias)
    tf32 = gpu.tf32 and a.dtype == np.float32
    plan = _plan(array_module(out), device, tf32, epilogue, at and _alignment(at), *matrices)
    if plan is None:
        return False
    handle, workspace, description, (left, right, result), algorithm, one, zero = plan
    if at:
        _set("MatmulDesc", description, {CUBLASLT_MATMUL_DESC_BIAS_POINTER: c_void_p(at)})
    if aux is not None:
        _set("MatmulDesc", description, {CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER: c_void_p(addresses[3])})
    of_a, of_b, d = addresses[:3]
    beta = one if add else zero
    return not _call("Matmul", handle, description, one, of_a, left, of_b, right, beta, d, result, d, result,
                     algorithm, kernels.address(workspace), WORKSPACE, stream)  # fmt: skip


@functools.cache
def _plan(xp, device, tf32, epilogue, bias, a, b, out, aux=None):
    """What is the same for all products of one kind and shape: what cuBLASLt is told, and the algorithm that it chose.

    None if it has none. Kept for good: less than 1 KB for each. bias: how its address is aligned.
    """
    _, compute, scale, scalar = TYPES[a.dtype.name]
    description = _new("MatmulDesc", CUBLAS_COMPUTE_32F_FAST_TF32 if tf32 else compute, scale)
    _set("MatmulDesc", description, {
        CUBLASLT_MATMUL_DESC_TRANSA: c_int32(a.turned),
        CUBLASLT_MATMUL_DESC_TRANSB: c_int32(b.turned),
        CUBLASLT_MATMUL_DESC_EPILOGUE: c_uint32(epilogue),
        # any addresses that are aligned alike, for nothing is read yet; None and 0 are the defaults
        CUBLASLT_MATMUL_DESC_BIAS_POINTER: c_void_p(bias),
        CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER: c_void_p(aux and aux.alignment),
        CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD: c_int64(aux.leading if aux else 0),
    })  # fmt: skip
    layouts = [_new("MatrixLayout", TYPES[m.dtype.name][0], m.rows, m.columns, m.leading) for m in (a, b, out)]
    aligned = enumerate((a, b, out, out), CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES)  # and those of B, C and D
    preference = _new("MatmulPreference")
    _set("MatmulPreference", preference, {
        CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES: c_uint64(WORKSPACE),
        # sums over parts of k are put together as wide as they were computed, and rounded once
        CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK: c_uint32(CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE),
        **{attribute: c_uint32(matrix.alignment) for attribute, matrix in aligned},
    })  # fmt: skip
    handle, workspace = _device(xp, device)
    found, number = Heuristic(), c_int()
    asked = handle, description, *layouts, layouts[2], preference, 1, byref(found), byref(number)
    refusals = CUBLAS_STATUS_NOT_SUPPORTED, CUBLAS_STATUS_INVALID_VALUE  # it says either of what it has nothing for
    if _call("MatmulAlgoGetHeuristic", *asked, refusals=refusals) or not number.value or found.state:
        return None
    return handle, workspace, description, layouts, byref(found), byref(scalar(1)), byref(scalar(0))


@functools.cache
def _device(xp, device):
    """A handle for the current device, and memory for cuBLASLt to work in."""
    return _new(""), xp.empty(WORKSPACE, np.uint8)


def _load():
    """The library that CuPy's cuBLAS is built on, found as CuPy finds it."""
    from cuda.pathfinder import load_nvidia_dynamic_lib

    return ctypes.CDLL(load_nvidia_dynamic_lib("cublasLt").abs_path or "cublasLt")


@functools.cache
def _library():
    library = _load()
    for name, types in FUNCTIONS.items():
        getattr(library, name).argtypes = types
    library.cublasLtGetStatusName.restype = c_char_p
    return library


def _call(name, *arguments, refusals=(CUBLAS_STATUS_NOT_SUPPORTED,)) -> bool:
    """Call a function. True if it refuses what it is asked for; raises RuntimeError for every other failure."""
    status = getattr(_library(), f"cublasLt{name}")(*arguments)
    if status not in (CUBLAS_STATUS_SUCCESS, *refusals):
        raise RuntimeError(f"cublasLt{name}: {_library().cublasLtGetStatusName(status).decode()}")
    return status != CUBLAS_STATUS_SUCCESS


def _new(kind, *arguments):
    made = c_void_p()
    _call(f"{kind}Create", byref(made), *arguments)
    return made


def _set(kind, described, values):
    for attribute, value in values.items():
        _call(f"{kind}SetAttribute", described, attribute, byref(value), ctypes.sizeof(value))


def _alignment(address) -> int:
    """How many bytes it is a multiple of, as far as cuBLASLt cares."""
    return min(256, address & -address)


def _as_stored(x) -> tuple[Matrix, int] | None:
    """How cuBLASLt sees a row-major array, and its address; None where neither rows nor columns are in one piece."""
    (rows, columns), size, at = x.shape, x.itemsize, kernels.address(x)
    down, along = x.strides
    if along == size and down >= columns * size:
        return Matrix(x.dtype, columns, rows, down // size, CUBLAS_OP_N, _alignment(at)), at
    if down == size and along >= rows * size:
        return Matrix(x.dtype, rows, columns, along // size, CUBLAS_OP_T, _alignment(at)), at
    return None

"""Matrix products by cuBLASLt, called through ctypes, for CuPy does not offer it.

It computes what CuPy's product cannot: float32 results of bfloat16 inputs, and an epilogue, which is what happens to a
product before it is written: a bias is added, GELU applied. Its matrices are column-major. A row-major array, read so,
is its own transpose; so out = a b is computed as D = A B with D = out^T, A = b^T, B = a^T. This file relies on these
sentences of cublasLt.h and NVIDIA's manual:

- BIAS: a contiguous array with one number for each row of D (column of out), of D's dtype.
- GELU_AUX_BIAS, DGELU: aux is the input of GELU, of D's shape and dtype. Its leading dimension counts numbers and is a
  multiple of 8. That it is the tanh form is not written there; products.py tests it.
- BGRADA: sums of A over k, one for each row of D, of D's dtype: the column sums of b. A must not be transposed.
- Epilogues need a column-major D. alpha and beta are read on the host; with beta = 0, C is not read at all.
- The heuristic assumes an alignment of 256 bytes unless another is given; for a bias and aux it reads their addresses.
- The 64 bytes of an algorithm may be kept in a file and used again with the same version of the library.

Which algorithm is taken: the heuristic returns several, algorithms.py times them and keeps the choice. Results are
checked in two places. products.py tests a small product of each kind: are its arguments passed correctly, and does its
epilogue compute what our own kernels do? The algorithms of one large product differ only in the sequence of their sums:
so it is enough that each one that is timed agrees with the first, on the arrays of that product.
"""

import ctypes
import dataclasses
import enum
import functools
from ctypes import byref, c_char_p, c_double, c_float, c_int, c_int32, c_int64, c_size_t, c_uint32, c_uint64, c_void_p
from typing import Any

import numpy as np

from minigpt.device import gpu
from minigpt.device.arrays import array_module
from minigpt.ops.cuda import algorithms, column_major, kernels
from minigpt.ops.cuda.column_major import Matrix

FAILURES = ImportError, OSError, RuntimeError  # what is raised where the library is missing, or a call of it fails
MOST_PLANS = 4096  # that are kept, a few KB each; a training step needs about 20
WORKSPACE = 32 << 20  # bytes, as NVIDIA advises for its H100; other GPUs need less

# Names and numbers of library_types.h, cublas_api.h and cublasLt.h.
CUDA_R_32F, CUDA_R_64F, CUDA_R_16BF = 0, 1, 14
CUBLAS_COMPUTE_32F, CUBLAS_COMPUTE_64F, CUBLAS_COMPUTE_32F_FAST_TF32 = 68, 70, 77
CUBLAS_STATUS_SUCCESS, CUBLAS_STATUS_INVALID_VALUE = 0, 7
CUBLAS_STATUS_ARCH_MISMATCH, CUBLAS_STATUS_NOT_SUPPORTED = 8, 15
CUBLASLT_MATMUL_DESC_TRANSA, CUBLASLT_MATMUL_DESC_TRANSB, CUBLASLT_MATMUL_DESC_EPILOGUE = 3, 4, 7
CUBLASLT_MATMUL_DESC_BIAS_POINTER, CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER = 8, 11
CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD = 12
CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK = 1, 3
CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE = 5, 2

TYPES = {  # dtype: cuBLASLt's types of its numbers, of sums, and of alpha and beta; and the last of these in ctypes
    "float32": (CUDA_R_32F, CUBLAS_COMPUTE_32F, CUDA_R_32F, c_float),
    "float64": (CUDA_R_64F, CUBLAS_COMPUTE_64F, CUDA_R_64F, c_double),
    "bfloat16": (CUDA_R_16BF, CUBLAS_COMPUTE_32F, CUDA_R_32F, c_float),
}
FUNCTIONS = {  # types of arguments; without them ctypes would cut an address to 32 bits
    "cublasLtCreate": [c_void_p],
    "cublasLtMatrixLayoutCreate": [c_void_p, c_int, c_uint64, c_uint64, c_int64],
    "cublasLtMatmulDescCreate": [c_void_p, c_int, c_int],
    "cublasLtMatmulDescSetAttribute": [c_void_p, c_int, c_void_p, c_size_t],
    "cublasLtMatmulPreferenceCreate": [c_void_p],
    "cublasLtMatmulPreferenceSetAttribute": [c_void_p, c_int, c_void_p, c_size_t],
    "cublasLtMatrixLayoutDestroy": [c_void_p],
    "cublasLtMatmulDescDestroy": [c_void_p],
    "cublasLtMatmulPreferenceDestroy": [c_void_p],
    "cublasLtMatmulAlgoGetHeuristic": [c_void_p] * 7 + [c_int, c_void_p, c_void_p],
    "cublasLtMatmulAlgoCheck": [c_void_p] * 8,
    "cublasLtMatmul": [c_void_p] * 14 + [c_size_t, c_void_p],
    "cublasLtGetStatusName": [c_int],
}


class Epilogue(enum.IntEnum):
    """What happens to a product before it is written: CUBLASLT_EPILOGUE_..."""

    DEFAULT, BIAS, GELU_AUX_BIAS, DGELU, BGRADA = 1, 4, 164, 192, 256


Algorithm = c_uint64 * 8  # cublasLtMatmulAlgo_t


class Heuristic(ctypes.Structure):
    """cublasLtMatmulHeuristicResult_t: an algorithm, and what is known of it."""

    _fields_ = [
        ("algo", Algorithm),
        ("workspaceSize", c_size_t),
        ("state", c_int),
        ("wavesCount", c_float),
        ("reserved", c_int * 4),
    ]


@dataclasses.dataclass(slots=True)
class Plan:
    """All that products of one kind and shape have in common, as cuBLASLt takes it."""

    handle: c_void_p
    workspace: Any  # an array
    workspace_address: int
    description: c_void_p
    layouts: list[c_void_p]  # of A, B and D
    offered: list[Heuristic]  # algorithms, cuBLASLt's best guess first
    what: tuple  # for the kind of algorithms.py
    multiplications: int
    one: Any
    zero: Any
    bias: c_void_p  # the address that the description has now
    aux: c_void_p
    algorithm: Any = None  # once it is chosen


plans = {}  # {what is known of a product's arrays: its plan, or None}, the oldest first


def multiply(a, b, out, epilogue=Epilogue.DEFAULT, bias=None, aux=None, add=False) -> bool:
    """a (M,K), b (K,N) -> out (M,N), with bias (N,) and aux (M,N) as the epilogue reads or writes them.

    add: the product is added to the numbers in out.

    False where cuBLASLt has no algorithm, or an array is stored in a way that it does not take. Raises RuntimeError
    where a call fails; where there is no cuBLASLt, one of FAILURES. Nothing waits for the GPU, but for the first large
    product of a kind, whose algorithms are timed on its own arrays. On each device it may be used on one stream at a
    time, for all products share the workspace.
    """
    device, stream = gpu.current_stream()
    tf32 = gpu.products_are_tf32()
    arrays = a, b, out, bias, aux
    addresses = [None if x is None else kernels.address(x) for x in arrays]
    # A step calls this some 150 times, and meanwhile a fast GPU would wait: so the way to a known plan is short.
    key = device, tf32, epilogue, *map(_facts, arrays, addresses)
    if key not in plans:
        _make_room()
        plans[key] = _plan_for(device, tf32, a, b, out, epilogue, bias, aux)
    plan = plans[key]
    if plan is None:
        return False
    address_a, address_b, address_out, address_bias, address_aux = addresses
    of_matrices = address_a, address_b, address_out
    if bias is not None:
        _point(plan.description, CUBLASLT_MATMUL_DESC_BIAS_POINTER, plan.bias, address_bias)
    if aux is not None:
        _point(plan.description, CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER, plan.aux, address_aux)
    if plan.algorithm is None:
        plan.algorithm = _choose(plan, device, stream, of_matrices, out, bias, aux, add)
    return _launch(plan, plan.algorithm, *of_matrices, plan.one if add else plan.zero, stream)


def _make_room():
    """Forget the oldest plans until there is room for one more. What they launched needs them no longer."""
    while len(plans) >= MOST_PLANS:
        plan = plans.pop(next(iter(plans)))
        if plan is not None:
            _destroy(plan.description, plan.layouts)


def _facts(x, address):
    """What a plan depends on: how an array is stored, and the alignment of its address."""
    return x if x is None else (x.dtype, x.shape, x.strides, column_major.alignment_of(address))


def _launch(plan, algorithm, a, b, out, beta, stream) -> bool:
    """The product of the matrices at these addresses; False where the algorithm cannot compute it."""
    layout_a, layout_b, layout_d = plan.layouts
    refused = _call(
        "Matmul", plan.handle, plan.description,
        plan.one, b, layout_a, a, layout_b,  # alpha A B
        beta, out, layout_d,  # beta C, where C is D
        out, layout_d,
        algorithm, plan.workspace_address, WORKSPACE, stream,
    )  # fmt: skip
    return not refused


def _choose(plan, device, stream, addresses, out, bias, aux, add):
    """The algorithm for a plan: the fastest one, where it is worth timing, else the first.

    All algorithms write the same numbers to the same arrays, so the caller's own are used, and the product that follows
    writes them once more. What is in `out` and shall be added to is put aside.
    """
    first = byref(plan.offered[0])
    if not algorithms.are_timed(plan.multiplications):
        return first
    kind = algorithms.kind_of(device, version(), *plan.what)
    restored = _restored(plan, algorithms.kept(kind))
    if restored is not None:
        return restored
    written = [array for array in (out, bias, aux) if array is not None]
    offered = {bytes(found.algo).hex(): byref(found) for found in plan.offered}

    def computed(algorithm):
        return written if _launch(plan, algorithm, *addresses, plan.zero, stream) else None

    ways = {text: functools.partial(computed, algorithm) for text, algorithm in offered.items()}
    before = out.copy() if add else None
    try:
        fastest = algorithms.fastest(kind, ways)
    finally:
        if add:
            out[...] = before
    return offered.get(fastest, first)


def _restored(plan, text):
    """The algorithm that was kept as this text; None where the library does not take it (any more)."""
    try:
        content = bytes.fromhex(text or "")
    except ValueError:  # no hexadecimal digits
        return None
    if len(content) != ctypes.sizeof(Algorithm):
        return None
    algorithm = Algorithm.from_buffer_copy(content)
    checked = Heuristic()
    layout_a, layout_b, layout_d = plan.layouts
    refused = _call(
        "MatmulAlgoCheck", plan.handle, plan.description, layout_a, layout_b, layout_d, layout_d,
        byref(algorithm), byref(checked),
        refusals=(CUBLAS_STATUS_NOT_SUPPORTED, CUBLAS_STATUS_INVALID_VALUE, CUBLAS_STATUS_ARCH_MISMATCH),
    )  # fmt: skip
    if refused or checked.state or checked.workspaceSize > WORKSPACE:
        return None
    return byref(algorithm)


def _plan_for(device, tf32, a, b, out, epilogue, bias, aux) -> Plan | None:
    """The plan for a product of these arrays; None where cuBLASLt cannot take them, or has no algorithm."""
    if 0 in a.shape or 0 in b.shape or a.dtype != b.dtype:
        return None
    if bias is not None and bias.dtype != out.dtype:
        return None
    matrices = column_major.as_stored(b, a, out, aux)
    if matrices is None:
        return None
    bias_alignment = None if bias is None else column_major.alignment_of(kernels.address(bias))
    return _plan(array_module(out), device, tf32 and a.dtype == np.float32, epilogue, bias_alignment, *matrices)


def _plan(xp, device, tf32, epilogue, bias, a, b, out, aux=None) -> Plan | None:
    """The plan for products of these matrices; None where cuBLASLt has no algorithm. bias: its alignment."""
    _, compute, scale, scalar = TYPES[a.dtype.name]
    if tf32:
        compute = CUBLAS_COMPUTE_32F_FAST_TF32
    # any addresses of the same alignment, for nothing is read yet; None and 0 are the defaults
    bias_pointer = c_void_p(bias)
    aux_pointer = c_void_p(aux and aux.alignment)
    description = _new("MatmulDesc", compute, scale)
    _set("MatmulDesc", description, {
        CUBLASLT_MATMUL_DESC_TRANSA: c_int32(a.turned),
        CUBLASLT_MATMUL_DESC_TRANSB: c_int32(b.turned),
        CUBLASLT_MATMUL_DESC_EPILOGUE: c_uint32(epilogue),
        CUBLASLT_MATMUL_DESC_BIAS_POINTER: bias_pointer,
        CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER: aux_pointer,
        CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD: c_int64(aux.leading if aux else 0),
    })  # fmt: skip
    layouts = [_layout(matrix) for matrix in (a, b, out)]
    handle, workspace = _device(xp, device)
    preference = _preference(a, b, out)
    offered = _offered(handle, description, layouts, preference)
    _call("MatmulPreferenceDestroy", preference)
    if not offered:
        _destroy(description, layouts)
        return None
    matrices = [[matrix.dtype.name, *matrix[1:]] for matrix in (a, b, out, aux) if matrix]
    shared = a.columns if not a.turned else a.rows  # the K of M, N and K
    return Plan(
        handle=handle,
        workspace=workspace,
        workspace_address=kernels.address(workspace),
        description=description,
        layouts=layouts,
        offered=offered,
        what=(epilogue.name, tf32, bias, WORKSPACE, CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE, *matrices),
        multiplications=out.rows * out.columns * shared,
        one=byref(scalar(1)),
        zero=byref(scalar(0)),
        bias=bias_pointer,
        aux=aux_pointer,
    )


def _destroy(description, layouts):
    """Free what a plan holds of cuBLASLt's."""
    _call("MatmulDescDestroy", description)
    for layout in layouts:
        _call("MatrixLayoutDestroy", layout)


def _layout(matrix: Matrix):
    type_of_numbers = TYPES[matrix.dtype.name][0]
    return _new("MatrixLayout", type_of_numbers, matrix.rows, matrix.columns, matrix.leading)


def _preference(a, b, out):
    """What an algorithm may use: memory, ways to sum, and the alignments of A, B, C and D, where C is D."""
    values = {
        CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES: c_uint64(WORKSPACE),
        # sums over parts of k are added in the dtype that they are computed in, and rounded once
        CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK: c_uint32(CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE),
    }
    for i, matrix in enumerate((a, b, out, out)):
        values[CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES + i] = c_uint32(matrix.alignment)
    preference = _new("MatmulPreference")
    _set("MatmulPreference", preference, values)
    return preference


def _offered(handle, description, layouts, preference) -> list[Heuristic]:
    """The algorithms that cuBLASLt proposes, its best guess first; none where it has none."""
    layout_a, layout_b, layout_d = layouts
    found = (Heuristic * algorithms.OFFERED)()
    number = c_int()
    refused = _call(
        "MatmulAlgoGetHeuristic", handle, description, layout_a, layout_b, layout_d, layout_d, preference,
        len(found), found, byref(number),
        refusals=(CUBLAS_STATUS_NOT_SUPPORTED, CUBLAS_STATUS_INVALID_VALUE),  # it may answer with either
    )  # fmt: skip
    if refused:
        return []
    return [one for one in found[: number.value] if not one.state]


@functools.cache
def _device(xp, device):
    """A handle for the current device, and memory for cuBLASLt to work in."""
    return _new(""), xp.empty(WORKSPACE, np.uint8)


def _load():
    """The library that CuPy's cuBLAS is built on, found in the way that CuPy finds it."""
    from cuda.pathfinder import load_nvidia_dynamic_lib

    return ctypes.CDLL(load_nvidia_dynamic_lib("cublasLt").abs_path or "cublasLt")


@functools.cache
def _library():
    library = _load()
    for name, types in FUNCTIONS.items():
        getattr(library, name).argtypes = types
    library.cublasLtGetStatusName.restype = c_char_p
    library.cublasLtGetVersion.restype = c_size_t
    return library


def version() -> int:
    """The library's version, such as 130200 for 13.2.0."""
    return _library().cublasLtGetVersion()


def _call(name, *arguments, refusals=(CUBLAS_STATUS_NOT_SUPPORTED,)) -> bool:
    """Call a function. True if its status is one of refusals; raises RuntimeError for every other failure."""
    library = _library()
    status = getattr(library, f"cublasLt{name}")(*arguments)
    if status == CUBLAS_STATUS_SUCCESS:
        return False
    if status in refusals:
        return True
    reason = library.cublasLtGetStatusName(status).decode()
    raise RuntimeError(f"cublasLt{name}: {reason}")


def _new(kind, *arguments):
    """A new object of this kind: cublasLt<kind>Create."""
    made = c_void_p()
    _call(f"{kind}Create", byref(made), *arguments)
    return made


def _set(kind, described, values):
    """Set attributes of an object: cublasLt<kind>SetAttribute for each of {attribute: number of ctypes}."""
    for attribute, value in values.items():
        _call(f"{kind}SetAttribute", described, attribute, byref(value), ctypes.sizeof(value))


def _point(description, attribute, pointer, address):
    """Set an address in a description, unless it is there already. pointer: the number of ctypes that holds it."""
    if pointer.value != address:
        pointer.value = address
        _call("MatmulDescSetAttribute", description, attribute, byref(pointer), ctypes.sizeof(pointer))

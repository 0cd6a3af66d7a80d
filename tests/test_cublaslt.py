"""Products by cuBLASLt, as a stand-in plays it, and the numbers of its header where there is one on this machine."""

import contextlib
import ctypes
import functools
import itertools
import os
import re
import shutil
import site
import subprocess
import tempfile
import warnings
from math import erf
from pathlib import Path

import cublaslt_on_cpu
import numpy as np
import pytest
from helpers import error, same

from minigpt.device import arrays, gpu
from minigpt.device.arrays import named_dtype
from minigpt.errors import InputError
from minigpt.ops.cuda import column_major, cublaslt, kernels, products
from minigpt.ops.cuda.cublaslt import Epilogue

WITH_CUBLASLT = pytest.mark.parametrize("kernels_on_cpu", ["cuBLASLt"], indirect=True)
KINDS = [("float32", "float32"), ("float64", "float64"), ("bfloat16", "bfloat16"), ("bfloat16", "float32")]
EXACT = {"float32": 1e-5, "float64": 1e-12, "bfloat16": 2**-8}
LAYOUTS = {
    "whole": lambda x: x.copy(),
    "transposed": lambda x: np.ascontiguousarray(x.T).T,
    "columns of a wider one": lambda x: np.pad(x, ((0, 0), (5, 3)))[:, 5:-3],
    "rows of a taller one": lambda x: np.pad(x, ((3, 1), (0, 0)))[3:-1],
    "columns of a wider one, transposed": lambda x: np.pad(x.T, ((0, 0), (8, 8)))[:, 8:-8].T,
}


def normal(*shape, dtype="float32"):
    return np.random.default_rng(sum(shape)).standard_normal(shape).astype(named_dtype(dtype))


def exactly(*arrays):
    return [x.astype(np.float64) for x in arrays]


def close(got, expected):
    return error(got.astype(np.float64), expected) < EXACT[got.dtype.name]


def needs_bfloat16(*dtypes):
    if "bfloat16" in dtypes:
        pytest.importorskip("ml_dtypes")


# --- the same numbers ------------------------------------------------------------------------------------------------


@WITH_CUBLASLT
@pytest.mark.parametrize(("dtype", "result"), KINDS)
@pytest.mark.parametrize("shape", [(5, 7, 9), (1, 8, 16), (16, 1, 8), (8, 16, 1), (1, 1, 1)])
@pytest.mark.parametrize("out", ["whole", "columns of a wider one"])
def test_products_of_every_layout(shape, out, dtype, result, kernels_on_cpu):
    needs_bfloat16(dtype)
    m, k, n = shape
    for left, right in itertools.product(LAYOUTS.values(), repeat=2):
        a, b = left(normal(m, k, dtype=dtype)), right(normal(k, n, dtype=dtype))
        whole = np.ones((m, n + 8), named_dtype(result))
        place = whole[:, 3:-5] if out != "whole" else np.empty((m, n), named_dtype(result))
        got = products.product(a, b, out=place)
        expected = np.matmul(*exactly(a, b))
        assert got is place and close(got, expected), (left, right)
        if dtype == result:
            assert same([products.product(a, b)], [got])
        if "bfloat16" != result:
            assert close(products.product(a, b, out=got, add=True), 2 * expected), (left, right)
        assert (whole[:, :3] == 1).all() and (whole[:, -5:] == 1).all()
    made = kernels_on_cpu.made.count(("DEFAULT", dtype, result))
    assert made == (1 + 25) * (1 + (dtype == result) + (result != "bfloat16")) - (dtype == result), "and tests of kinds"


@WITH_CUBLASLT
@pytest.mark.parametrize(("dtype", "result"), KINDS[:3])
def test_a_bias(dtype, result, kernels_on_cpu):
    needs_bfloat16(dtype)
    for step in (1, 2):
        x, w, b = normal(5, 7, dtype=dtype), normal(7, 9, dtype=dtype), normal(18, dtype=dtype)[: 9 * step : step]
        x64, w64, b64 = exactly(x, w, b)
        assert close(products.product(x, w, bias=b), x64 @ w64 + b64)
    assert kernels_on_cpu.made == [("BIAS", dtype, result)] * 3


@pytest.mark.parametrize("kernels_on_cpu", ["CuPy", "cuBLASLt"], indirect=True)
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_a_product_with_a_bias_is_added(dtype, kernels_on_cpu):
    x, w, b, there = (normal(*shape, dtype=dtype) for shape in ((5, 7), (7, 9), (9,), (5, 9)))
    x64, w64, b64, there64 = exactly(x, w, b, there)
    assert close(products.product(x, w, bias=b, out=there, add=True), there64 + x64 @ w64 + b64)


@WITH_CUBLASLT
@pytest.mark.parametrize("refused", [(), ("GELU_AUX_BIAS", "DGELU", "BGRADA")])
@pytest.mark.parametrize("columns", [24, 21])
@pytest.mark.parametrize(("dtype", "result"), KINDS[:3])
def test_gelu_and_bias_gradients(dtype, result, columns, refused, kernels_on_cpu):
    """Where there is no algorithm, or the rows of aux begin where they may not, the kernels make the same."""
    needs_bfloat16(dtype)
    kernels_on_cpu.refuses = lambda problem: problem.epilogue in refused
    x, w, b, da = (normal(*s, dtype=dtype) for s in ((10, 16), (16, columns), (columns,), (10, 16)))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        a, f = products.product_gelu(x, w, b)
        df = products.product_gelu_backward(da, w, f)
        dw, db = products.weight_gradients(x, df)
        alone, none = products.weight_gradients(x, df, bias=False)
    x64, w64, b64, da64, f64, df64 = exactly(x, w, b, da, f, df)
    assert close(f, x64 @ w64 + b64) and close(a, cublaslt_on_cpu.tanh_gelu(x64 @ w64 + b64)[0])
    assert close(df, da64 @ w64 * cublaslt_on_cpu.tanh_gelu(f64)[1])
    assert close(dw, x64.T @ df64) and close(db, df64.sum(axis=0)) and close(alone, x64.T @ df64) and none is None
    assert dw.dtype == db.dtype == kernels.wide(x.dtype)
    made = {epilogue for epilogue, *_ in kernels_on_cpu.made[1:]}
    fused = set() if refused else {"GELU_AUX_BIAS", "DGELU", "BGRADA"} if columns % 8 == 0 else {"BGRADA"}
    assert fused <= made and not made & set(refused)


@WITH_CUBLASLT
def test_a_bias_of_another_dtype_is_left_to_cupy(kernels_on_cpu):
    needs_bfloat16("bfloat16")
    x, w, b = (normal(*shape, dtype="bfloat16") for shape in ((5, 7), (7, 9), (9,)))
    x64, w64, b64 = exactly(x, w, b)
    assert close(products.product(x, w, bias=b, out=np.empty((5, 9), np.float32)), x64 @ w64 + b64)


@WITH_CUBLASLT
def test_what_lies_badly_is_left_to_cupy(kernels_on_cpu):
    a, b = normal(12, 14)[::2, ::2], normal(7, 5)
    for x, y in ((a, b), (normal(6, 8)[:, :0], b[:0]), (normal(0, 7), b),
                 (np.broadcast_to(a[:, :1], (6, 7)), b), (np.broadcast_to(normal(7), (6, 7)), b)):  # fmt: skip
        before = len(kernels_on_cpu.made)
        assert not len(x) or close(products.product(x, y) + 1, np.matmul(*exactly(x, y)) + 1)
        assert len(kernels_on_cpu.made) - before == (1 if before == 0 else 0), "only the one that tests the kind"


@WITH_CUBLASLT
def test_plans_of_ever_new_shapes_are_freed(kernels_on_cpu, monkeypatch):
    """What is kept belongs to the plans of the last products; what was forgotten is made again when it is needed."""
    monkeypatch.setattr(cublaslt, "MOST_PLANS", 3)
    kernels_on_cpu.refuses = lambda problem: problem.d.columns == 4
    for _ in range(2):
        for rows in range(1, 9):
            a, b = normal(rows, 7), normal(7, 5)
            assert close(products.product(a, b), np.matmul(*exactly(a, b)))
    assert list(kernels_on_cpu.alive()) == ["handle", "description", "layout"]
    assert kernels_on_cpu.alive() == {"handle": 1, "description": 3, "layout": 9}


@WITH_CUBLASLT
def test_results_are_row_major_and_of_one_dtype(kernels_on_cpu):
    a, b, out = normal(5, 7), normal(7, 8), np.empty((8, 5), np.float32).T
    assert close(products.product(a, b, out=out), np.matmul(*exactly(a, b)))
    for wrong in (out, np.empty((5, 8))):
        assert not cublaslt.multiply(a, b, np.empty((5, 8), np.float32), Epilogue.GELU_AUX_BIAS, b[0], wrong)


@WITH_CUBLASLT
def test_tf32_is_for_float32_alone_and_ends_with_its_block(kernels_on_cpu):
    a, b = normal(20, 30), normal(30, 40)
    exact, fine = np.matmul(*exactly(a, b)), products.product(a, b)
    with gpu.products_in("tf32"):
        coarse = products.product(a, b)
        with gpu.products_in("float32"):
            assert same([products.product(a, b)], [fine])
        assert same([products.product(a, b)], [coarse])
        double = products.product(a.astype(float), b.astype(float))
        assert kernels_on_cpu.made[-1] == ("DEFAULT", "float64", "float64")
    assert error(fine, exact) < 1e-6 < 1e-5 < error(coarse, exact) < 1e-3
    assert error(double, np.matmul(*exactly(a, b))) < 1e-14
    assert same([products.product(a, b)], [fine])


@WITH_CUBLASLT
def test_products_are_exact_again_after_an_error(kernels_on_cpu):
    a, b = normal(20, 30), normal(30, 40)
    fine = products.product(a, b)
    with pytest.raises(KeyError), gpu.products_in("tf32"):
        raise KeyError
    assert same([products.product(a, b)], [fine])


def test_products_in_another_dtype_are_refused():
    with pytest.raises(InputError, match="products in 'int8': choose float32 or tf32"), gpu.products_in("int8"):
        pass


# --- what a call costs, and what goes wrong --------------------------------------------------------------------------


@WITH_CUBLASLT
def test_once_a_shape_is_known_its_algorithm_is_not_searched_for_again(kernels_on_cpu):
    """A search takes longer than a small product: here it would now find nothing."""
    x, w, b, a, f = normal(16, 8), normal(8, 24), normal(24), normal(16, 24), normal(16, 24)
    ways = [(), (Epilogue.BIAS, b), (Epilogue.GELU_AUX_BIAS, b, f)]
    for way in ways:
        assert cublaslt.multiply(x, w, a, *way)
    kernels_on_cpu.state = cublaslt.CUBLAS_STATUS_NOT_SUPPORTED
    x *= 2
    for way in ways:
        assert cublaslt.multiply(x, w, a, *way)
        assert not cublaslt.multiply(x[:15], w, a[:15], *way), "of another shape: it is searched for"
    assert cublaslt.multiply(x, w, a) and close(a, np.matmul(*exactly(x, w)))


@WITH_CUBLASLT
def test_an_algorithm_that_is_found_but_not_fit_is_not_used(kernels_on_cpu):
    kernels_on_cpu.state = cublaslt.CUBLAS_STATUS_NOT_SUPPORTED
    a, b = normal(5, 7), normal(7, 9)
    assert not cublaslt.multiply(a, b, normal(5, 9)) and "Matmul" not in kernels_on_cpu.calls
    assert close(products.product(a, b), np.matmul(*exactly(a, b)))


@WITH_CUBLASLT
def test_gelu_in_another_form_is_not_used(kernels_on_cpu):
    """The largest difference between the two forms is 4.7e-4."""
    kernels_on_cpu.gelu = lambda z: (z * (1 + np.vectorize(erf)(z / np.sqrt(2))) / 2, None)
    x, w, b = normal(10, 16), normal(16, 24), normal(24)
    with pytest.warns(UserWarning, match="not used for GELU_AUX_BIAS in float32: it is off by") as warned:
        for _ in range(2):
            a, f = products.product_gelu(x, w, b)
    assert len(warned) == 1
    assert close(a, cublaslt_on_cpu.tanh_gelu(np.matmul(*exactly(x, w)) + b)[0])
    assert ("BIAS", "float32", "float32") in kernels_on_cpu.made, "the rest is trusted"


@WITH_CUBLASLT
@pytest.mark.parametrize("wrong", [np.nan, 1.001])
def test_a_product_that_is_wrong_is_not_used(wrong, kernels_on_cpu, monkeypatch):
    multiply = cublaslt.multiply

    def spoiled(a, b, out, *more):
        made = multiply(a, b, out, *more)
        out *= wrong
        return made

    monkeypatch.setattr(cublaslt, "multiply", spoiled)
    a, b = normal(5, 7), normal(7, 9)
    with pytest.warns(UserWarning, match="not used for DEFAULT in float32") as warned:
        assert close(products.product(a, b), np.matmul(*exactly(a, b)))
        assert close(products.product(a, b), np.matmul(*exactly(a, b)))
    assert len(warned) == 1


def left_alone(match):
    """One product that fails, with one warning, and one that does not try again."""
    a, b = normal(5, 7), normal(7, 9)
    with pytest.warns(UserWarning, match=match) as warned:
        for _ in range(2):
            assert close(products.product(a, b), np.matmul(*exactly(a, b)))
    assert len(warned) == 1 == len(products.FAILED)
    products.FAILED.clear()


@WITH_CUBLASLT
@pytest.mark.parametrize("failure", [OSError("no such file"), ImportError("no pathfinder"), RuntimeError("not found")])
def test_without_the_library_cupy_multiplies(failure, kernels_on_cpu, monkeypatch):
    def load():
        raise failure

    monkeypatch.setattr(cublaslt, "_load", load)
    left_alone(f"no DEFAULT in float32 by cuBLASLt, CuPy may be slower: {failure}")
    assert products.by_cublaslt == isinstance(failure, RuntimeError), "where there is no library nothing tries again"


@WITH_CUBLASLT
@pytest.mark.parametrize("name", ["Create", "MatmulDescCreate", "MatmulAlgoGetHeuristic", "Matmul"])
def test_a_call_that_fails_ends_it_and_is_named(name, kernels_on_cpu):
    setattr(kernels_on_cpu, f"cublasLt{name}", lambda *arguments: 13)
    for function in vars(kernels_on_cpu).values():
        if callable(function) and not hasattr(function, "argtypes"):
            function.argtypes = None
    left_alone(f"cublasLt{name}: CUBLAS_STATUS_EXECUTION_FAILED")


@WITH_CUBLASLT
def test_the_stand_in_sees_addresses_that_are_cut(kernels_on_cpu, monkeypatch):
    monkeypatch.setattr(cublaslt, "FUNCTIONS", dict.fromkeys(cublaslt.FUNCTIONS))
    left_alone("CUBLAS_STATUS_I")
    assert kernels_on_cpu.complaints
    kernels_on_cpu.complaints.clear()


WRONG = {  # what is done to the numbers of cublaslt.py, and the complaint
    "no attribute 99": ("CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD", 99),
    "aux_ld has not 4 bytes": ("c_int64", ctypes.c_int32),
    "a bias is missing": ("CUBLASLT_MATMUL_DESC_BIAS_POINTER", 11),
    "workspace": ("_device", lambda xp, device: (cublaslt._new(""), np.empty(16, np.uint8))),
    "is not aligned as promised": ("alignment_of", lambda address: 256),
    "partial sums may be rounded": ("CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE", 4),
    "alpha, beta or C": ("TYPES", {"float32": (0, 68, 0, ctypes.c_double)}),
    "KeyError": ("address", None),
}


@WITH_CUBLASLT
@pytest.mark.parametrize("complaint", WRONG)
def test_the_stand_in_sees(complaint, kernels_on_cpu, monkeypatch):
    name, value = WRONG[complaint]
    if name == "address":
        monkeypatch.setattr(kernels, "address", lambda array: array.ctypes.data + 16)
    else:
        monkeypatch.setattr(column_major if name == "alignment_of" else cublaslt, name, value)
    x, w, b = (np.empty(1024, np.float32)[1:][: np.prod(s)].reshape(s) for s in ((8, 8), (8, 16), (16,)))
    a, f = np.empty((2, 8, 16), np.float32)
    with contextlib.suppress(RuntimeError):  # or the heuristic has nothing for it
        assert not cublaslt.multiply(x, w, a, Epilogue.GELU_AUX_BIAS, b, f)
    assert complaint in kernels_on_cpu.complaints[0]
    kernels_on_cpu.complaints.clear()


# --- the header, and the library -------------------------------------------------------------------------------------


@functools.cache
def includes() -> list[Path]:
    """Folders with headers of CUDA: a toolkit's, or those of NVIDIA's wheels."""
    roots = [Path(os.environ[name]) for name in ("CUDA_HOME", "CUDA_PATH") if os.environ.get(name)]
    roots += [Path("/usr/local/cuda"), Path("/usr")]
    roots += [folder for place in site.getsitepackages() for folder in sorted(Path(place).glob("nvidia/*"))]
    return [root / "include" for root in roots if (root / "include").is_dir()]


PROGRAM = r"""
#include <cstddef>
#include <cstdio>
#include <cublasLt.h>

template <class F> struct Arguments;
template <class R, class... A> struct Arguments<R (*)(A...)> {
    static void say(const char* name) {
        printf("%s", name);
        for (int size : {int(sizeof(A))...}) printf(" %d", size);
        puts("");
    }
};

int main() {
"""


@functools.cache
def header(*expressions: str) -> dict[str, list[int]]:
    """What a compiler makes of each expression, and of the sizes of the arguments of our functions."""
    if not shutil.which("g++"):
        pytest.skip("there is no g++")
    command = ["g++", "-std=c++17", *(f"-I{path}" for path in includes()), "-x", "c++", "-"]
    read = subprocess.run([*command, "-M"], input=PROGRAM, capture_output=True, text=True)
    if read.returncode:  # CuPy and PyTorch bring wheels of CUDA 13 with cublasLt.h, but not with all that it includes
        missing = next((line for line in read.stderr.splitlines() if "error" in line), read.stderr)
        pytest.skip(f"a header of CUDA is missing (of wheels: cublas, cuda-runtime, cuda-crt, cuda-cccl): {missing}")
    lines = [f'printf("%s %lld\\n", "{said}", (long long)({said}));' for said in expressions]
    lines += [f'Arguments<decltype(&{name})>::say("{name}");' for name in cublaslt.FUNCTIONS]
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run([*command, "-o", f"{folder}/a"], input=PROGRAM + "\n".join(lines) + "\n}", text=True, check=True)
        said = subprocess.run([f"{folder}/a"], capture_output=True, text=True, check=True).stdout
    return {line.split()[0]: [int(n) for n in line.split()[1:]] for line in said.splitlines()}


FIELDS = [f"offsetof(cublasLtMatmulHeuristicResult_t,{name})" for name, _ in cublaslt.Heuristic._fields_]
SIZES = ["sizeof(cublasLtMatmulHeuristicResult_t)", "sizeof(cublasLtMatmulAlgo_t)"]
NUMBERS = {
    name: value for name, value in (vars(cublaslt) | vars(column_major)).items() if re.match("CU[A-Z]+_", name)
}
NUMBERS |= {f"CUBLASLT_EPILOGUE_{one.name}": one.value for one in Epilogue}


def test_numbers_and_sizes_are_those_of_the_header():
    found = header(*FIELDS, *SIZES, *NUMBERS, *(f"CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_{m}_BYTES" for m in "ABCD"))
    assert len(NUMBERS) > 20 and {name: found[name] for name in NUMBERS} == {n: [v] for n, v in NUMBERS.items()}
    assert [found[f"CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_{matrix}_BYTES"] for matrix in "ABCD"] == [[5], [6], [7], [8]]
    ours = [getattr(cublaslt.Heuristic, name).offset for name, _ in cublaslt.Heuristic._fields_]
    assert [found[field][0] for field in FIELDS] == ours
    assert [found[size][0] for size in SIZES] == [ctypes.sizeof(cublaslt.Heuristic), cublaslt.Heuristic.algo.size]


def test_arguments_have_the_sizes_that_the_header_says():
    found = header(*FIELDS, *SIZES, *NUMBERS, *(f"CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_{m}_BYTES" for m in "ABCD"))
    for name, types in cublaslt.FUNCTIONS.items():
        assert found[name] == [ctypes.sizeof(t) for t in types], name


def test_the_library_itself_takes_what_it_is_told(monkeypatch):
    """Without a GPU it makes no handle, and so names no algorithm. But it describes."""
    try:
        cublaslt._library()
    except (ImportError, OSError, RuntimeError) as missing:
        pytest.skip(f"there is no cuBLASLt: {str(missing).splitlines()[0]}")
    told = []

    def set_and_ask(kind, described, values):
        set_all(kind, described, values)
        for attribute, value in values.items():
            get = getattr(cublaslt._library(), f"cublasLt{kind}GetAttribute")
            get.argtypes = [*cublaslt.FUNCTIONS[f"cublasLt{kind}SetAttribute"], ctypes.c_void_p]
            back, size = type(value)(), ctypes.c_size_t()
            assert get(described, attribute, ctypes.byref(back), ctypes.sizeof(back), ctypes.byref(size)) == 0
            assert back.value == value.value and size.value == ctypes.sizeof(value)
            told.append(attribute)

    set_all = cublaslt._set
    monkeypatch.setattr(cublaslt, "_set", set_and_ask)
    monkeypatch.setattr(cublaslt, "_device", lambda xp, device: (None, None))
    needs_bfloat16("bfloat16")
    dtype = named_dtype("bfloat16")
    a, b, out = (cublaslt.Matrix(dtype, *shape, 1 << 34, 0, 16) for shape in ((8, 16), (16, 24), (8, 24)))
    try:
        assert cublaslt._plan(np, 0, False, Epilogue.GELU_AUX_BIAS, 256, a, b, out, out) is None
    except RuntimeError as refused:
        assert str(refused).startswith("cublasLtMatmulAlgoGetHeuristic: CUBLAS_STATUS_")
    assert told == [3, 4, 7, 8, 11, 12, 1, 3, 5, 6, 7, 8]


@pytest.mark.gpu
@pytest.mark.parametrize(("dtype", "result"), KINDS)
def test_a_gpu_makes_them_as_exactly(dtype, result):
    """Those with a bias, and those without, by cuBLASLt itself; the others by it or by our kernels."""
    if gpu.cuda_problem():
        pytest.skip(f"no GPU: {gpu.cuda_problem()}")
    needs_bfloat16(dtype)
    x, w, b, da = (arrays.to_device(normal(*s, dtype=dtype), "cuda") for s in ((40, 16), (16, 24), (24,), (40, 16)))
    x64, w64, b64, da64 = exactly(*map(arrays.to_numpy, (x, w, b, da)))
    out = arrays.to_device(np.empty((40, 24), named_dtype(result)), "cuda")
    assert close(arrays.to_numpy(products.product(x, w, out=out)), x64 @ w64) and cublaslt.multiply(x, w, out)
    if out.dtype != x.dtype:
        assert close(arrays.to_numpy(products.product(x, w, out=out, add=True)), 2 * (x64 @ w64))
    if dtype == result:
        assert close(arrays.to_numpy(products.product(x, w, bias=b)), x64 @ w64 + b64)
        a, f = products.product_gelu(x, w, b)
        assert close(arrays.to_numpy(f), x64 @ w64 + b64)
        df = products.product_gelu_backward(da, w, f)
        dw, db = map(arrays.to_numpy, products.weight_gradients(x, df))
        a, f, df = exactly(*map(arrays.to_numpy, (a, f, df)))
        value, slope = cublaslt_on_cpu.tanh_gelu(f)
        assert error(a, value) < 2 * EXACT[dtype] and error(df, da64 @ w64 * slope) < 2 * EXACT[dtype]
        assert close(dw, x64.T @ df) and close(db, df.sum(axis=0))

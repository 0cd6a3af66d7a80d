"""CUDA sources: compiled when they are first needed, and called with arrays and numbers."""

import functools
import re
from pathlib import Path

import numpy as np

from minigpt.device import arrays, gpu
from minigpt.device.arrays import Array

FOLDER = Path(__file__).parent
ARRAY = getattr(gpu.cupy, "ndarray", ())  # without CuPy, no array is one of ours
THREADS = 128  # of a block that has no reason for another number
WARPS = 8  # of a block that shares out rows among them
STRIPES = 256  # of rows that are summed up apart, at most; and rows of one, at least: two launches sum up everything
TYPES = {  # dtype: how numbers are stored, and computed with
    "float32": ("float", "float"),
    "float64": ("double", "double"),
    "bfloat16": ("bfloat16", "float"),
}

NUMPYS = {"int": np.int32, "unsigned": np.uint32, "long long": np.int64, "unsigned long long": np.uint64}


def accepts(*arrays) -> str | None:
    """None where all of them are CuPy arrays of one dtype, float32, float64 or bfloat16; otherwise the reason."""
    for array in arrays:
        if not isinstance(array, ARRAY):
            return f"it takes CuPy arrays, not {type(array).__name__}"
        if name_of(array.dtype) not in TYPES:
            return f"it takes {', '.join(TYPES)}, not {name_of(array.dtype)}"
        if array.dtype != arrays[0].dtype:
            return f"it takes arrays of one dtype, not {name_of(arrays[0].dtype)} and {name_of(array.dtype)}"
    return None


@functools.cache
def name_of(dtype) -> str:
    """The name of a dtype. NumPy takes microseconds to put it together, which a GPU would wait for."""
    return dtype.name


def wide(dtype) -> np.dtype:
    """What numbers of this dtype are computed and summed in, and the dtype of gradients of weights."""
    return np.dtype(np.float32) if name_of(dtype) == "bfloat16" else dtype


def launch(file: str, kernel: str, grid: tuple, block: tuple, *arguments, **constants: int) -> None:
    """Run a kernel of `file`.cu on a grid of blocks. An empty grid is nothing to do.

    arguments: as the source declares them: arrays for pointers (None is the null pointer), numbers for numbers. One
    array of bfloat16 says that real is that; otherwise the first of floats says what real and wide are. constants:
    numbers that the compiler knows, as sizes of tiles.
    """
    if 0 in grid:
        return
    dtypes = [name for a in arguments if isinstance(a, ARRAY) and (name := name_of(a.dtype)) in TYPES]
    dtype = "bfloat16" if "bfloat16" in dtypes else (dtypes or ["float32"])[0]
    function, types = _compiled(file, dtype, tuple(constants.items()))[kernel]
    assert len(types) == len(arguments), f"{kernel} takes {len(types)} arguments, not {len(arguments)}"
    function(grid, block, tuple(_argument(a, *kind) for a, kind in zip(arguments, types, strict=True)))


def launch_each(file: str, kernel: str, out: Array, *arguments) -> Array:
    """Run a kernel that makes the numbers of `out` one by one from those of arrays as large, a pack for each thread."""
    pack = pack_of(out.size, out, *(a for a in arguments if isinstance(a, ARRAY)))
    launch(file, kernel, (blocks(out.size, pack * THREADS), 1, 1), (THREADS, 1, 1), out, *arguments, PACK=pack)
    return out


def pack_of(n: int, *arrays: Array) -> int:
    """How many numbers a thread takes at once of rows of n: as many as are 16 bytes, where rows and arrays allow it."""
    pack = 16 // min(a.itemsize for a in arrays)
    return 1 if n % pack or any(address(a) % 16 for a in arrays) else pack


def compile(source: str):
    """A module that has `get_function(name)`. CuPy keeps what it has compiled, on the disk too."""
    return gpu.cupy.RawModule(code=source, options=("-std=c++14",))


def source(file: str, dtype: str, **constants: int) -> str:
    """The whole text of a .cu file for one dtype. What it includes is put in: CuPy would not see when that changes."""
    stored, computed = TYPES[dtype]
    head = f"{_read('bfloat16.cuh')}typedef {stored} real;\ntypedef {computed} wide;\n"
    head += "".join(f"const int {name} = {value};\n" for name, value in {"PACK": 1, **constants}.items())
    return head + re.sub(r'#include "(.+)"\n', lambda found: _read(found[1]), _read(f"{file}.cu"))


def parameters(source: str) -> dict[str, list[tuple[str, str]]]:
    """{kernel: [(type, "*" or ""), ...]}, as declared in a source."""
    declared = re.findall(r'__global__ void (\w+)\(([^)]*)\)', source)
    one = re.compile(r"(?:const )?([\w ]+?)(\*?) \w+$")
    return {name: [one.match(" ".join(p.split())).groups() for p in text.split(",")] for name, text in declared}


def column_sums(x):
    """x (G,N,C) -> (G,C): each column's sum, as wide as it is computed: of stripes, and then of their sums."""
    groups, rows, columns = x.shape
    stripe = stripe_of(rows)
    sums = arrays.array_module(x).empty((groups, max(1, blocks(rows, stripe)), columns), wide(x.dtype))
    pack = pack_of(columns, x, sums)
    grid, constants = (blocks(columns, pack * 32), sums.shape[1], groups), {"PACK": pack, "WARPS": WARPS}
    launch("columns", "column_sums", grid, (32, WARPS, 1), sums, x, rows, columns, stripe, **constants)
    return sums[:, 0] if sums.shape[1] == 1 else column_sums(sums)


def stripe_of(rows: int, least: int | None = None) -> int:
    """How many rows are summed up in one go: `least` or STRIPES, or more. The shape decides, so all have one order."""
    return max(least or STRIPES, blocks(rows, STRIPES))


def blocks(n: int, size: int) -> int:
    """How many blocks of this size cover n."""
    return -(-n // size)


def address(array) -> int:
    """Where an array begins, for tables of addresses."""
    return array.data.ptr


@functools.cache
def _compiled(file, dtype, constants):
    """{kernel: (its function, [(dtype, "*" or ""), ...])}"""
    text, real = source(file, dtype, **dict(constants)), arrays.named_dtype(dtype)
    module, numpys = compile(text), {"real": real, "wide": wide(real), **NUMPYS}
    return {kernel: (module.get_function(kernel), [(np.dtype(numpys[kind]), pointer) for kind, pointer in declared])
            for kernel, declared in parameters(text).items()}  # fmt: skip


def _read(name):
    return (FOLDER / name).read_text(encoding="utf-8")


def _argument(value, kind, pointer):
    """A value as a kernel takes it: nothing would say that 8 bytes were given where 4 are read."""
    if not pointer:
        return kind.type(value)
    if value is None:
        return np.uint64(0)
    assert isinstance(value, ARRAY) and value.dtype == kind and value.flags.c_contiguous, f"not an array of {kind}"
    return value

"""CUDA sources: compiled when they are first needed, and launched with arrays and numbers."""

import functools
import re
from pathlib import Path
from typing import Any

import numpy as np

from minigpt.device import arrays, gpu
from minigpt.device.arrays import Array

FOLDER = Path(__file__).parent
ARRAY = getattr(gpu.cupy, "ndarray", ())  # CuPy's class of arrays; without CuPy nothing is an instance of it
THREADS = 128  # of a block, where a kernel needs no other number
WARPS = 8  # of a block whose warps share some rows
STRIPES = 256  # of a sum over rows: the largest number of partial sums, and the fewest rows in each
MOST_ON_Y = (1 << 16) - 1  # blocks of a grid along y and z, on every GPU; along x there may be 2^31 - 1
TYPES = {  # dtype: the types of C++ that its numbers are stored in, and computed in
    "float32": ("float", "float"),
    "float64": ("double", "double"),
    "bfloat16": ("bfloat16", "float"),
}
NULL = np.uint64(0)
DTYPES = {  # type of C++: its dtype
    "bool": np.bool_,
    "int": np.int32,
    "unsigned": np.uint32,
    "long long": np.int64,
    "unsigned long long": np.uint64,
}


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


def accepts_beside_gains(x, *gains) -> str | None:
    """The same for an x beside gains and biases, which have the dtype that numbers are computed in."""
    reason = accepts(x)
    if reason is not None:
        return reason
    for gain in gains:
        if gain.dtype != wide(x.dtype):
            return f"it takes gains of {wide(x.dtype)} beside {x.dtype}, not of {gain.dtype}"
    return accepts(*gains)


@functools.cache
def name_of(dtype) -> str:
    """The name of a dtype. NumPy takes microseconds to make it, and meanwhile a GPU would wait."""
    return dtype.name


def wide(dtype) -> np.dtype:
    """The dtype that numbers of this dtype are computed and summed in; gradients of weights have it too."""
    return np.dtype(np.float32) if name_of(dtype) == "bfloat16" else dtype


def launch(file: str, kernel: str, grid: tuple, block: tuple, *arguments, **constants: int) -> None:
    """Run a kernel of `file`.cu on a grid of blocks. For an empty grid nothing is done.

    arguments: as the source declares them: arrays for pointers (None is the null pointer), numbers for numbers. The
    type `real` of the source is bfloat16 where one array has it, and otherwise that of the first array of floats.
    constants: numbers that the compiler knows, such as sizes of tiles.
    Raises AssertionError for arguments that the source does not declare so.
    """
    if 0 in grid:
        return
    functions = _compiled(file, _real_of(arguments), tuple(constants.items()))
    function, kinds = functions[kernel]
    function(grid, block, as_declared(kernel, kinds, arguments))


def as_declared(kernel: str, kinds: list[tuple], arguments: tuple) -> tuple:
    """Arrays and numbers as a function takes them. kinds: its arguments as `declared` tells them.

    Raises AssertionError for others: CUDA does not check. Of 8 bytes given where 4 are declared, it would read 4.
    """
    assert len(kinds) == len(arguments), f"{kernel} takes {len(kinds)} arguments, not {len(arguments)}"
    checked = []
    for value, (dtype, as_number) in zip(arguments, kinds, strict=True):
        checked.append(_pointer(value, dtype) if as_number is None else as_number(value))
    return tuple(checked)


def launch_each(file: str, kernel: str, out: Array, *arguments) -> Array:
    """Run a kernel that computes each number of `out` from the same place in arrays of that size. Returns out.

    A thread takes as many numbers as fit into one access to memory.
    """
    arrays_given = [a for a in arguments if isinstance(a, ARRAY)]
    pack = pack_of(out.size, out, *arrays_given)
    grid = (blocks(out.size, pack * THREADS), 1, 1)
    launch(file, kernel, grid, (THREADS, 1, 1), out, *arguments, PACK=pack)
    return out


def launch_rows(file: str, kernel: str, grid: int, in_packs: tuple, *arguments) -> None:
    """Run a kernel of `file`.cu that keeps rows in registers, as rows.cuh says, on so many blocks.

    in_packs: the arrays that are read or written several numbers at a time, the last of them g (C,).
    """
    columns = in_packs[-1].size
    pack = pack_of(columns, *in_packs)
    packs = blocks(columns, 32 * pack)
    block = (32, WARPS, 1)
    launch(file, kernel, (grid, 1, 1), block, *arguments, PACK=pack, PACKS=packs, WARPS=WARPS)


def pack_of(n: int, *arrays: Array) -> int:
    """How many numbers a thread reads at once in rows of n numbers.

    As many as 16 bytes hold, where n is a multiple of that and all arrays begin at a multiple of 16 bytes; otherwise 1.
    """
    pack = 16 // min(a.itemsize for a in arrays)
    if n % pack:
        return 1
    for array in arrays:
        if address(array) % 16:
            return 1
    return pack


def compile(source: str):
    """A module that has `get_function(name)`. CuPy keeps what it has compiled, also on disk."""
    return gpu.cupy.RawModule(code=source, options=("-std=c++14",))


def source(file: str, dtype: str, **constants: int) -> str:
    """The whole text of a .cu file for one dtype. Included files are inserted: CuPy would not see when they change.

    REAL in the name of an included file stands for the dtype.
    """
    stored, computed = TYPES[dtype]
    lines = [f"typedef {stored} real;", f"typedef {computed} wide;"]
    for name, value in {"PACK": 1, **constants}.items():
        lines.append(f"const int {name} = {value};")
    head = _read("bfloat16.cuh") + "\n".join(lines) + "\n"

    def insert(found):
        return whole(found[1].replace("REAL", dtype))

    def whole(name):
        return re.sub(r'#include "(.+)"\n', insert, _read(name))

    return head + whole(f"{file}.cu")


def parameters(source: str) -> dict[str, list[tuple[str, str]]]:
    """{kernel: [(type, "*" or ""), ...]}, as declared in a source."""
    one = re.compile(r"(?:const )?([\w ]+?)(\*?) \w+$")
    declared = {}
    for kernel, text in re.findall(r"__global__ void (\w+)\(([^)]*)\)", source):
        texts = [" ".join(parameter.split()) for parameter in text.split(",")]
        declared[kernel] = [one.findall(parameter)[0] for parameter in texts]
    return declared


def declared(source: str, dtype: str) -> dict[str, list[tuple]]:
    """{kernel: [(dtype of an argument, what makes a number of it, or None for a pointer), ...]} of a source."""
    real = arrays.named_dtype(dtype)
    stored, computed = TYPES[dtype]
    dtypes: dict[str, Any] = {"real": real, "wide": wide(real), stored: real, computed: wide(real), **DTYPES}
    found = {}
    for kernel, arguments in parameters(source).items():
        kinds = []
        for kind, pointer in arguments:
            dtype_of_kind = np.dtype(dtypes[kind])
            kinds.append((dtype_of_kind, None if pointer else dtype_of_kind.type))
        found[kernel] = kinds
    return found


def column_sums(x):
    """x (G,N,C) -> (G,C): the sum of each column, in the dtype that `wide` gives.

    Stripes of rows are summed first, and then their sums: a launch for each.
    """
    groups, rows, columns = x.shape
    stripe = stripe_of(rows)
    stripes = max(1, blocks(rows, stripe))
    xp = arrays.array_module(x)
    sums = xp.empty((groups, stripes, columns), wide(x.dtype))
    pack = pack_of(columns, x, sums)
    grid = (blocks(columns, pack * 32), stripes, groups)
    block = (32, WARPS, 1)
    launch("column_sums", "column_sums", grid, block, sums, x, rows, columns, stripe, PACK=pack, WARPS=WARPS)
    if stripes == 1:
        return sums[:, 0]
    return column_sums(sums)


def stripe_of(rows: int, least: int | None = None) -> int:
    """How many rows make one partial sum: at least `least`, or STRIPES, and enough for at most STRIPES partial sums.

    Only the shape decides, so the numbers are always added in the same sequence.
    """
    return max(least or STRIPES, blocks(rows, STRIPES))


def blocks(n: int, size: int) -> int:
    """How many blocks of this size cover n."""
    return -(-n // size)


def address(array) -> int:
    """Where an array begins in memory, for tables of addresses."""
    return array.data.ptr


def aligned(array: Array) -> Array:
    """In one piece, and from a multiple of 16 bytes on, as kernels need it that read 16 bytes at once."""
    array = arrays.array_module(array).ascontiguousarray(array)
    return array.copy() if address(array) % 16 else array


def _real_of(arguments) -> str:
    """The name of the dtype that a source is compiled for."""
    first = None
    for argument in arguments:
        if not isinstance(argument, ARRAY):
            continue
        name = name_of(argument.dtype)
        if name == "bfloat16":
            return name
        if first is None and name in TYPES:
            first = name
    return first or "float32"


@functools.cache
def _compiled(file, dtype, constants):
    """{kernel: (its function, its arguments as `declared` tells them)}"""
    text = source(file, dtype, **dict(constants))
    module = compile(text)
    return {kernel: (module.get_function(kernel), kinds) for kernel, kinds in declared(text, dtype).items()}


def _read(name):
    return (FOLDER / name).read_text(encoding="utf-8")


def _pointer(value, dtype):
    """An array as a kernel takes it, in one piece and of this dtype; None is the null pointer."""
    if value is None:
        return NULL
    assert isinstance(value, ARRAY), f"not an array of {dtype}: {type(value).__name__}"
    assert value.dtype == dtype, f"not an array of {dtype}, but of {value.dtype}"
    assert value.flags.c_contiguous, f"not an array of {dtype} in one piece"
    return value

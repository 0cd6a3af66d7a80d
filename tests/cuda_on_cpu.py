"""A stand-in for CuPy's RawModule without a GPU: the CUDA sources, compiled by g++ against cuda_on_cpu.h.

Every launch is made twice, on copies, with the threads of a block in order and in reverse: other bits are a race. The
copies stand between walls, of NaN the first time and of small numbers the second, which must still stand afterwards:
so other bits may also mean that something beyond an array was read.

What is compiled lies in the folder that the variable MINIGPT_KERNELS of the environment names: all processes of a run
of pytest share one. Without the variable it lies in a folder of its own, until Python ends.
"""

import ctypes
import functools
import hashlib
import math
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
from filelock import FileLock

from minigpt.ops.cuda import kernels

HEADER, PLAYER = (Path(__file__).with_name(f"cuda_on_cpu.{kind}") for kind in ("h", "cc"))
WALL = 1024  # bytes on either side, at least
THREE = ctypes.c_uint * 3
FAILURES = {
    1: "some threads of a block wait for others for ever",
    2: "an address that is no multiple of what is moved, or not in shared memory",
    3: "a factor of a product in tf32 that is not rounded",
}
_own = tempfile.TemporaryDirectory(prefix="minigpt-kernels-", ignore_cleanup_errors=True)  # gone when Python ends
built = Path(os.environ.get("MINIGPT_KERNELS", _own.name))
_known = {}  # address: array, where a table of addresses has been made


def address(array) -> int:
    """In place of kernels.address: what such a table leads to is copied between walls too."""
    _known[array.ctypes.data] = array
    return array.ctypes.data


def problem() -> str | None:
    """Why kernels cannot run on this machine's processor."""
    if not sys.platform.startswith("linux"):
        return "kernels run on a processor only under Linux"
    return None if shutil.which("g++") else "there is no g++ to compile kernels for a processor with"


class Module:
    """Has get_function(name), as CuPy's RawModule."""

    def __init__(self, source: str):
        self.library = _build(source)
        self.sizes = {}  # of each kernel: the bytes of each argument that is no array
        for name, declared in kernels.parameters(source).items():
            self.sizes[name] = [8 if pointer else _size_of(kind, self.library) for kind, pointer in declared]

    def get_function(self, name: str):
        """A function of (grid, block, arguments)."""
        return functools.partial(self._run, name)

    def _run(self, name, grid, block, arguments):
        assert 1 <= min(*grid, *block) and math.prod(block) <= 1024 and max(grid[1:]) < 65536, (grid, block)
        arrays = {}  # by id: one that is given twice has one copy
        for a, size in zip(arguments, self.sizes[name], strict=True):
            if not isinstance(a, np.ndarray):
                assert a.dtype.itemsize == size, f"{name}: a number of the wrong size"
            elif _is_table(a):
                arrays |= {id(_known[where]): _known[where] for where in a.ravel().tolist() if where}
            else:
                arrays[id(a)] = a
        one, other = (self._run_once(name, grid, block, arguments, arrays, reverse) for reverse in (0, 1))
        for key, a in arrays.items():
            same = one[key].tobytes() == other[key].tobytes()
            assert same, f"{name}: a race between threads, or a read out of bounds"
            a[...] = one[key]

    def _run_once(self, name, grid, block, arguments, arrays, reverse):
        """The copies of the arrays, as the kernel leaves them."""
        copies = {key: _between_walls(a, reverse) for key, a in arrays.items()}
        places = {key: copy.ctypes.data for key, copy in copies.items()}
        values, tables = [], []  # each argument as a number: an array is the address of its copy
        for a in arguments:
            if isinstance(a, np.ndarray) and _is_table(a):
                tables.append(np.array([where and places[id(_known[where])] for where in a.ravel().tolist()], a.dtype))
                values.append(np.uint64(tables[-1].ctypes.data))
            else:
                values.append(np.uint64(places[id(a)]) if isinstance(a, np.ndarray) else a)
        given = np.zeros(len(values), np.uint64)
        for i, value in enumerate(values):
            given[i : i + 1].view(value.dtype)[0] = value
        begin = given.ctypes.data
        addresses = (ctypes.c_void_p * len(values))(*range(begin, begin + given.nbytes, given.itemsize))
        failed = getattr(self.library, f"run_{name}")(THREE(*grid), THREE(*block), reverse, addresses)
        assert not failed, f"{name}: {FAILURES[failed]}"
        for copy in copies.values():
            whole, size, wall = copy.base, copy.nbytes, _wall(copy, reverse)
            begin = copy.ctypes.data - whole.ctypes.data
            left, right = whole[:begin].tobytes(), whole[begin + size :].tobytes()
            assert wall.startswith(left) and wall.startswith(right), f"{name} wrote out of bounds"
        return copies


def _size_of(kind: str, library) -> int:
    """Bytes of a number of this type in a compiled source."""
    known = {"int": 4, "unsigned": 4, "float": 4, "long long": 8, "unsigned long long": 8}
    return known.get(kind) or ctypes.c_int.in_dll(library, f"size_of_{kind}").value


def _is_table(array) -> bool:
    return array.dtype == np.uint64


@functools.cache
def _walls(brick: int) -> bytes:
    return bytes([brick]) * (2 * WALL)


def _wall(array, second) -> bytes:
    """What a wall is made of. A whole number may be an index: 0 leads nowhere else."""
    return _walls((0x3F if array.dtype.kind in "fV" else 0) if second else 0xFF)


def _between_walls(array, second):
    """A copy, as far from a multiple of 16 bytes as the array."""
    whole = np.full(array.nbytes + 3 * WALL, _wall(array, second)[0], np.uint8)
    begin = WALL + (array.ctypes.data - whole.ctypes.data) % 16
    inside = np.ndarray(array.shape, array.dtype, whole, begin)
    inside[...] = array
    return inside


def _compile(out: Path, *options: str | Path) -> None:
    """`out` is written under another name and renamed: who finds it finds all of it.

    g++ spends no time on making kernels quick, as each runs for a moment; it does so for the player.
    """
    command = ["g++", "-std=c++17", "-w", "-U_FORTIFY_SOURCE", "-ffp-contract=off", "-fPIC"]
    command += ["-fno-gnu-unique"]  # each library has its own shared memory, also that of inline functions
    beside = out.with_name(f"{out.name}.part")
    subprocess.run([*command, *options, "-o", beside], check=True)
    beside.replace(out)


@functools.cache
def _player() -> Path:
    """The library of the player. Its header is compiled too: kernels include that."""
    here = built / "player.so"
    with FileLock(here.with_suffix(".lock")):
        if not here.exists():
            shutil.copy(HEADER, built)
            _compile(built / f"{HEADER.name}.gch", "-x", "c++-header", HEADER)
            _compile(here, "-O2", "-shared", PLAYER)
    return here


@functools.cache
def _build(source: str):
    text = f'#include "{HEADER.name}"\n{source}\n'
    for kind in ("real", "wide"):
        if f" {kind};" in source:  # a typedef
            text += f'extern "C" int size_of_{kind} = sizeof({kind});\n'
    for name, declared in kernels.parameters(source).items():
        given = ", ".join(f"*({kind}{star}*)a[{i}]" for i, (kind, star) in enumerate(declared))
        text += (
            f'extern "C" int run_{name}(const unsigned* grid, const unsigned* block, int reverse, void** a) {{ '
            f"return cpu::run(grid, block, reverse, [](void** a) {{ {name}({given}); }}, a, shared_begin, shared_end); "
            "}\n"
        )
    player = _player()
    path = built / hashlib.sha256(text.encode()).hexdigest()[:16]
    with FileLock(path.with_suffix(".lock")):
        if not path.with_suffix(".so").exists():
            path.with_suffix(".cc").write_text(text, encoding="utf-8")
            _compile(path.with_suffix(".so"), "-shared", path.with_suffix(".cc"), player)
    return ctypes.PyDLL(str(path.with_suffix(".so")))  # one launch at a time: the player plays one

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
WALL = 1024  # bytes on either side
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
        self.library, self.parameters = _build(source), kernels.parameters(source)

    def get_function(self, name: str):
        """A function of (grid, block, arguments)."""
        return functools.partial(self._run, name)

    def _run(self, name, grid, block, arguments):
        assert 1 <= min(*grid, *block) and np.prod(block) <= 1024 and max(grid[1:]) < 65536, (grid, block)
        assert [a.dtype.itemsize for a in arguments if not isinstance(a, np.ndarray)] == [
            8 if pointer or kind.endswith("long") else ctypes_size(kind, self.library)
            for a, (kind, pointer) in zip(arguments, self.parameters[name], strict=True)
            if not isinstance(a, np.ndarray)
        ], f"{name}: a number of the wrong size"
        arrays = [a for a in arguments if isinstance(a, np.ndarray) and not _is_table(a)]
        arrays += [_known[int(where)] for a in arguments if _is_table(a) for where in a.flat if where]
        runs = [self._run_once(name, grid, block, arguments, arrays, reverse) for reverse in (0, 1)]
        for a in arrays:
            assert runs[0][id(a)].tobytes() == runs[1][id(a)].tobytes(), (
                f"{name}: a race between threads, or a read out of bounds"
            )
            a[...] = runs[0][id(a)]

    def _run_once(self, name, grid, block, arguments, arrays, reverse):
        walled = {id(a): _between_walls(a, reverse) for a in arrays}

        def inside(a):
            if _is_table(a):
                return np.array([where and walled[id(_known[int(where)])][1].ctypes.data for where in a.flat], a.dtype)
            return walled[id(a)][1] if isinstance(a, np.ndarray) else np.array(a)

        values = [inside(a) for a in arguments]
        pointers = [
            ctypes.c_void_p(v.ctypes.data) if isinstance(a, np.ndarray) else None
            for a, v in zip(arguments, values, strict=True)
        ]
        addresses = (ctypes.c_void_p * len(values))(
            *(v.ctypes.data if p is None else ctypes.addressof(p) for p, v in zip(pointers, values, strict=True))
        )
        three = ctypes.c_uint * 3
        failed = getattr(self.library, f"run_{name}")(three(*grid), three(*block), reverse, addresses)
        assert not failed, f"{name}: {FAILURES[failed]}"
        for whole, copy in walled.values():
            begin, brick = copy.ctypes.data - whole.ctypes.data, _brick(copy, reverse)
            assert (whole[:begin] == brick).all() and (whole[begin + copy.nbytes :] == brick).all(), (
                f"{name} wrote out of bounds"
            )
        return {key: copy for key, (_, copy) in walled.items()}


def ctypes_size(kind: str, library) -> int:
    """Bytes of a number of this type in a compiled source."""
    return {"int": 4, "unsigned": 4, "float": 4}.get(kind) or ctypes.c_int.in_dll(library, f"size_of_{kind}").value


def _is_table(argument) -> bool:
    return isinstance(argument, np.ndarray) and argument.dtype == np.uint64


def _brick(array, second) -> int:
    """The byte that a wall is made of. A whole number may be an index: 0 leads nowhere else."""
    return (0x3F if array.dtype.kind in "fV" else 0) if second else 0xFF


def _between_walls(array, second):
    """A copy, as far from a multiple of 16 bytes as the array."""
    whole = np.full(array.nbytes + 3 * WALL, _brick(array, second), np.uint8)
    begin = WALL + (array.ctypes.data - whole.ctypes.data) % 16
    inside = whole[begin : begin + array.nbytes].view(array.dtype).reshape(array.shape)
    inside[...] = array
    return whole, inside


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

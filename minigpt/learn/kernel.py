"""A kernel written in CUDA C, run where it can be: on a GPU, or played by this machine's processor.

    problem = kernel.problem()                # None, or why no kernel can be run here
    kernel.run(SOURCE, "gelu", grid, block, out, x, n)
    if kernel.ran(SOURCE, "gelu", grid, block, out, x, n):          # the same; one line where it cannot be run
    kernel.mistake(SOURCE, "gelu", grid, block, out, x, n)          # what the processor finds wrong with it

The processor plays every thread of a grid. It comes from the tests of the repository, tests/cuda_on_cpu.py: it runs
each launch twice, with the threads in two sequences, and finds races and addresses outside of arrays.
"""

import functools
import importlib.util
import subprocess
from pathlib import Path
from types import ModuleType

import numpy as np

from minigpt.device import arrays, gpu
from minigpt.errors import InputError
from minigpt.ops.cuda import kernels

PLAYER = Path(__file__).parents[2] / "tests" / "cuda_on_cpu.py"
DTYPES = kernels.DTYPES | dict.fromkeys(("float", "real", "wide"), np.float32)
HEAD = "typedef float real;\ntypedef float wide;\n"  # the two names that the library's own kernels use


def place() -> str:
    """Where `run` runs kernels: "GPU", "processor" or "nowhere"."""
    if gpu.cuda_problem() is None:
        return "GPU"
    return "nowhere" if problem() else "processor"


@functools.cache
def problem() -> str | None:
    """None where a kernel can be run; otherwise why not, and what to do, in one line."""
    if gpu.cuda_problem() is None:
        return None
    if not PLAYER.is_file():
        return "no GPU, and no tests/cuda_on_cpu.py to play kernels: use a copy of the repository"
    return _player().problem()


def run(source: str, name: str, grid: int | tuple[int, int], block: int | tuple[int, int], *arguments) -> None:
    """Launch the kernel `name` of a source. grid: blocks, or (along x, along y); block: its threads, likewise.

    arguments: as the source declares them, arrays of NumPy for pointers, which the kernel may write to, and numbers.
    Raises InputError for others, for a source that does not compile, and where no kernel can be run. The player raises
    AssertionError for a race, and for an address outside of the arrays.
    """
    if why_not := problem():
        raise InputError(f"no kernel can be run here: {why_not}")
    blocks = grid if isinstance(grid, tuple) else (grid, 1)
    sizes = block if isinstance(block, tuple) else (block, 1)
    values = _checked(source, name, arguments)
    if gpu.cuda_problem() is None:
        _run_on_gpu(source, name, (*blocks, 1), (*sizes, 1), values)
    else:
        _compiled(source).get_function(name)((*blocks, 1), (*sizes, 1), values)


def ran(source: str, name: str, grid: int | tuple[int, int], block: int | tuple[int, int], *arguments) -> bool:
    """Run a kernel as `run` does. Where no kernel can be run, print one line that says why not, and return False."""
    if why_not := problem():
        print(f"not run: {why_not}")
        return False
    run(source, name, grid, block, *arguments)
    return True


def mistake(source: str, name: str, grid: int | tuple[int, int], block: int | tuple[int, int], *arguments) -> str:
    """What the processor that plays a kernel finds wrong with it; "" if nothing.

    A GPU does not check anything, and is not given the kernel: then, and where no kernel can be run, "not checked".
    """
    if place() != "processor":
        return "not checked"
    try:
        run(source, name, grid, block, *arguments)
    except AssertionError as error:
        return str(error)
    return ""


def _checked(source: str, name: str, arguments: tuple) -> list:
    """The arguments as the source declares them. C does not check: it would read 4 bytes where 8 were given."""
    kernels_of_source = kernels.parameters(source)
    if name not in kernels_of_source:
        raise InputError(f"the source has no kernel {name!r}; it has {', '.join(kernels_of_source) or 'none'}")
    declared = kernels_of_source[name]
    if len(declared) != len(arguments):
        raise InputError(f"{name} takes {len(declared)} arguments, not {len(arguments)}")
    return [_as_declared(name, value, *kind) for value, kind in zip(arguments, declared, strict=True)]


def _as_declared(name: str, value, kind: str, pointer: str):
    dtype = np.dtype(DTYPES[kind])
    if not pointer:
        return dtype.type(value)
    if not isinstance(value, np.ndarray) or value.dtype != dtype or not value.flags.c_contiguous:
        what = f"an array of {value.dtype}" if isinstance(value, np.ndarray) else type(value).__name__
        raise InputError(f"{name} takes arrays of {dtype} in one piece for {kind}*, not {what}")
    return value


def _run_on_gpu(source, name, grid, block, values):
    there = []
    for value in values:
        there.append(arrays.to_device(value, "cuda") if isinstance(value, np.ndarray) else value)
    kernels.compile(HEAD + source).get_function(name)(grid, block, tuple(there))
    for value, result in zip(values, there, strict=True):
        if isinstance(value, np.ndarray):
            value[...] = arrays.to_numpy(result)


@functools.cache
def _player() -> ModuleType:
    spec = importlib.util.spec_from_file_location("cuda_on_cpu", PLAYER)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@functools.cache
def _compiled(source: str):
    try:
        return _player().Module(HEAD + source)
    except subprocess.CalledProcessError:
        raise InputError("the kernel does not compile: see what g++ says about it above") from None

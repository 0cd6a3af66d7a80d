"""A kernel written in CUDA C, run where it can be: on a GPU, or played by this machine's processor.

    problem = kernel.problem()                # None, or why no kernel can be run here
    kernel.run(SOURCE, "gelu", grid, block, out, x, n)

The processor plays every thread of a grid. It comes from the tests of the repository, tests/cuda_on_cpu.py: it runs
each launch twice, with the threads in two sequences, and finds races and addresses outside of arrays.
"""

import functools
import importlib.util
from pathlib import Path
from types import ModuleType

import numpy as np

from minigpt.device import arrays, gpu
from minigpt.errors import InputError
from minigpt.ops.cuda import kernels

PLAYER = Path(__file__).parents[2] / "tests" / "cuda_on_cpu.py"
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


def run(source: str, name: str, grid: int, block: int | tuple[int, int], *arguments) -> None:
    """Launch the kernel `name` of a source with `grid` blocks; block: threads, or (threads along x, along y).

    arguments: float32 arrays of NumPy for pointers, which the kernel may write to; numbers for int and float. Raises
    InputError where no kernel can be run, and AssertionError for a race or for an address outside of the arrays.
    """
    if why_not := problem():
        raise InputError(f"no kernel can be run here: {why_not}")
    sizes = block if isinstance(block, tuple) else (block, 1)
    values = [_as_c(value) for value in arguments]
    if gpu.cuda_problem() is None:
        _run_on_gpu(source, name, (grid, 1, 1), (*sizes, 1), values)
    else:
        _compiled(source).get_function(name)((grid, 1, 1), (*sizes, 1), values)


def _as_c(value):
    """A number as C's int or float; arrays stay."""
    if isinstance(value, np.ndarray):
        return value
    return np.int32(value) if isinstance(value, int | np.integer) else np.float32(value)


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
    return _player().Module(HEAD + source)

"""Which array module: NumPy or CuPy. The only file that imports cupy."""

import contextlib
import ctypes
import functools
import importlib.metadata
import os
import queue
import sys
import threading
from collections.abc import Callable
from typing import Any

import numpy as np

from minigpt import sections
from minigpt.errors import InputError

try:
    import cupy
except ImportError as error:
    cupy, _import_error = None, error

try:
    import ml_dtypes
except ImportError:
    ml_dtypes = None

Array = Any  # numpy.ndarray or cupy.ndarray


def named_dtype(name: str) -> np.dtype:
    """The dtype of this name, which for NumPy alone bfloat16 is not. Raises InputError where it cannot be had."""
    if name == "bfloat16" and ml_dtypes is None:
        raise InputError("bfloat16 needs ml_dtypes: pip install ml_dtypes")
    return np.dtype(ml_dtypes.bfloat16 if name == "bfloat16" else name)


def array_module(*arrays: Array):
    """numpy or cupy, whichever made these arrays. Mixed arrays are refused by position."""
    if cupy is None:
        return np
    on_gpu = [isinstance(array, cupy.ndarray) for array in arrays]
    if any(on_gpu) and not all(on_gpu):
        kinds = ", ".join(f"argument {i} is {'CuPy' if gpu else 'NumPy'}" for i, gpu in enumerate(on_gpu, 1))
        raise InputError(f"NumPy and CuPy arrays are mixed ({kinds}): move them with minigpt.backend.to_device first")
    return cupy if on_gpu and on_gpu[0] else np


def to_device(array: Array, device: str) -> Array:
    """The array on "cpu" (NumPy) or "cuda" (CuPy); the array itself if it is there already."""
    if device == "cpu":
        return to_numpy(array)
    if cupy is None:
        raise InputError(f"no GPU can be used: {cuda_problem()}")
    with readable_errors():
        return cupy.asarray(array)


def to_numpy(array: Array) -> np.ndarray:
    """The array as NumPy: the one place where numbers come back from a GPU."""
    if cupy is not None and isinstance(array, cupy.ndarray):
        return cupy.asnumpy(array)
    return array if isinstance(array, (np.ndarray, np.generic)) else np.asarray(array)


def device_of(array: Array) -> str:
    """Where an array lives: "cpu" or "cuda"."""
    return "cpu" if array_module(array) is np else "cuda"


def choose_device(wanted: str | None = None) -> str:
    """"cpu" or "cuda" for "auto", "cpu" or "cuda"; None asks the environment variable MINIGPT_DEVICE, then "auto".

    Raises InputError with cause and cure where "cuda" is asked for and cannot be had.
    """
    wanted = wanted or os.environ.get("MINIGPT_DEVICE") or "auto"
    if wanted not in ("auto", "cpu", "cuda"):
        raise InputError(f"unknown device {wanted!r}: choose auto, cpu or cuda")
    if wanted == "cpu":
        return "cpu"
    problem = cuda_problem()
    if problem and wanted == "cuda":
        raise InputError(f"no GPU can be used: {problem}")
    return "cpu" if problem else "cuda"


def cuda_problem() -> str | None:
    """None if a small computation on the GPU comes out right; otherwise the cause and its cure, in one line."""
    wheels = _cupy_wheels()
    if len(wheels) > 1:
        return f"several CuPy packages are installed ({', '.join(wheels)}): pip uninstall all of them, then install one"
    if cupy is None:
        return explain(_import_error)
    try:
        if cupy.cuda.runtime.getDeviceCount() == 0:
            return "CuPy sees no CUDA device: check nvidia-smi and CUDA_VISIBLE_DEVICES, or use --device cpu"
        x = cupy.arange(4, dtype=cupy.float32).reshape(2, 2)  # memory, a kernel, a product by cuBLAS, a copy back
        if float((x * x).sum()) != 14.0 or float((x @ x)[1, 1]) != 11.0:
            return "the GPU computed 0 + 1 + 4 + 9 or 2 + 9 wrongly: do not trust it; use --device cpu"
    except Exception as error:  # whatever a half-installed CUDA raises here, the user needs its meaning
        return explain(error)
    return None


@functools.cache
def _cupy_wheels() -> list[str]:
    names = {distribution.metadata["Name"] for distribution in importlib.metadata.distributions()}
    return sorted(name for name in names if name and (name == "cupy" or name.startswith("cupy-cuda")))


def explain(error: BaseException) -> str:
    """The likely cause of a CUDA error and its cure, in one line."""
    lines = [line.strip()[:160] for line in f"{type(error).__name__}: {error}".splitlines() if line.strip()]
    wheel = (*_cupy_wheels(), "cupy-cuda12x")[0]
    for words, (cause,) in sections.read(__file__, "causes.txt").items():
        for line in lines:
            if any(word in line.lower() for word in words.split(" | ")):
                return f"{cause.format(wheel=wheel)} [{line}]"
    last = next(line for line in reversed(lines) if any(map(str.isalpha, line)))  # CuPy frames its message
    return f"CuPy does not work here [{last}]: see python -c 'import cupy; cupy.show_config()'"


def use_device(index: int) -> None:
    """Of several GPUs take number index, modulo how many there are. Without a GPU nothing is done."""
    if cupy is not None and cupy.is_available():
        cupy.cuda.Device(index % cupy.cuda.runtime.getDeviceCount()).use()


def check_precision(name: str, device: str) -> None:
    """Raises InputError where a model cannot compute in "tf32" or "bfloat16"; "float32" can be had everywhere."""
    if name == "float32":
        return
    if device == "cpu":
        raise InputError(f"--dtype {name} needs a GPU: leave it out, or give --dtype float32")
    if not tensor_cores():
        has = f"{device_name(device)} has {int(cupy.cuda.Device().compute_capability) / 10}"
        raise InputError(f"--dtype {name} needs a GPU of compute capability 8.0, and {has}: give --dtype float32")
    if name == "bfloat16":
        named_dtype(name)


def tensor_cores() -> bool:
    """Can this GPU multiply matrices of bfloat16? (From NVIDIA's Ampere on.)"""
    return int(cupy.cuda.Device().compute_capability) >= 80


def device_name(device: str) -> str:
    """What the device calls itself."""
    return cupy.cuda.runtime.getDeviceProperties(0)["name"].decode() if device == "cuda" else "CPU"


def synchronize() -> None:
    """Wait until the GPU has done everything that it was asked to do."""
    cupy.cuda.get_current_stream().synchronize()


def current_stream() -> tuple[int, int]:
    """The number of the current GPU, and the address of its current stream."""
    return cupy.cuda.runtime.getDevice(), cupy.cuda.get_current_stream().ptr


def available_memory(device: str) -> int | None:
    """Bytes that one can still have on a GPU: what is free there, and what CuPy's pool holds without using it."""
    if device == "cpu":
        return None
    pool = cupy.get_default_memory_pool()
    return cupy.cuda.runtime.memGetInfo()[0] + pool.free_bytes()


def held_memory() -> int:
    """Bytes of GPU memory that CuPy's pool holds, in use or kept for the next array."""
    return cupy.get_default_memory_pool().total_bytes()


def free_memory() -> None:
    """Give back to the GPU what the pool only keeps."""
    cupy.get_default_memory_pool().free_all_blocks()


def has_nccl(processes: int) -> bool:
    """Is there NCCL, and a GPU for each of so many processes on this machine?"""
    from cupy.cuda import nccl

    return nccl.available and cupy.cuda.runtime.getDeviceCount() >= processes


def nccl(size: int, rank: int, broadcast: Callable) -> Callable:
    """A function that sums an array over the GPUs of so many processes.

    broadcast: a function that gives to every process what the first one passes.
    """
    from cupy.cuda import nccl

    name = broadcast(nccl.get_unique_id() if rank == 0 else None)
    communicator = nccl.NcclCommunicator(size, name, rank)
    types = {"float32": nccl.NCCL_FLOAT32, "float64": nccl.NCCL_FLOAT64}

    def all_reduce(array: Array) -> Array:
        array = cupy.ascontiguousarray(array)
        out, stream = cupy.empty_like(array), cupy.cuda.get_current_stream().ptr
        kind = types[array.dtype.name], nccl.NCCL_SUM
        communicator.allReduce(array.data.ptr, out.data.ptr, array.size, *kind, stream)
        return out

    return all_reduce


@contextlib.contextmanager
def readable_errors():
    """Inside, an error of one of CuPy's own classes becomes an InputError with its cause and cure."""
    try:
        yield
    except Exception as error:
        if not type(error).__module__.startswith("cupy"):
            raise
        raise InputError(explain(error)) from error


def keep_freed_memory() -> None:
    """Let the C library keep freed memory for the next array. Elsewhere than on Linux with glibc nothing is done.

    Left alone, it returns large blocks to the system, and each page of the next array is cleared and mapped anew: a
    third of a small training step.
    """
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None) if sys.platform == "linux" else None
    if mallopt:
        mallopt(-3, 1 << 30)  # M_MMAP_THRESHOLD: blocks below this size come from the heap
        mallopt(-1, (1 << 31) - 1)  # M_TRIM_THRESHOLD: so much of it may lie idle


tf32 = False  # may a GPU's products round float32 inputs to 10 bits behind the point, which is faster?


def set_threads(number: int) -> None:
    """Let matrix products, and what `share` shares out, use this many threads.

    Raises InputError for a number below 1.
    """
    global _threads
    if number < 1:
        raise InputError(f"--threads {number}: give 1 or more")
    _threads = number
    _limit_products(number)


def threads() -> int:
    """How many threads may work at the same time: what `set_threads` said, or what BLAS found."""
    global _threads
    if _threads is None:
        _threads = max((library.num_threads for library in _libraries()), default=os.cpu_count() or 1)
    return _threads


def share(body: Callable, *sizes: int, work: int) -> list:
    """[body(*slices), ...]: each thread takes its part of every range(size), all at the same time.

    NumPy lets go of Python's lock while it computes. work: about how many numbers are touched; where they are few, one
    call gets everything. Matrix products inside use one thread. body must not call share, nor touch what others write.
    """
    n = min(threads() if work >= SHARED else 1, *sizes)
    if n < 2:
        return [body(*(slice(0, size) for size in sizes))]
    parts = [[slice(size * k // n, size * (k + 1) // n) for size in sizes] for k in range(n)]
    results, done, tasks = [None] * n, queue.SimpleQueue(), _tasks(n - 1, os.getpid())

    def run(i):
        try:
            results[i], error = body(*parts[i]), None
        except BaseException as raised:  # of another thread: it is raised again in this one
            error = raised
        done.put(error)

    _limit_products(1)
    try:
        for i in range(1, n):
            tasks.put(functools.partial(run, i))
        run(0)
        errors = [error for error in (done.get() for _ in parts) if error]
    finally:
        _limit_products(threads())
    if errors:
        raise errors[0]
    return results


SHARED = 1 << 15  # with less work than this, waking another thread costs more than it saves
_threads: int | None = None


@functools.cache
def _tasks(workers: int, pid: int) -> queue.SimpleQueue:
    """What is put in is called by one of so many threads: a third of the delay of a ThreadPoolExecutor.

    pid: a forked process has none of its parent's threads, and needs its own.
    """
    tasks = queue.SimpleQueue()

    def work():
        while True:
            tasks.get()()

    for _ in range(workers):
        threading.Thread(target=work, daemon=True).start()
    return tasks


@functools.cache
def _libraries() -> list:
    from threadpoolctl import ThreadpoolController

    return ThreadpoolController().select(user_api="blas").lib_controllers


def _limit_products(number: int) -> None:
    for library in _libraries():
        library.set_num_threads(number)

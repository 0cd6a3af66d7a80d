"""CuPy and the GPU: whether they work, how products are computed, how much memory is free.

The only file that imports cupy.
"""

import contextlib
import contextvars
import functools
import importlib.metadata
import itertools
import os
from collections.abc import Callable

from minigpt.errors import InputError

try:
    import cupy
except ImportError as error:
    cupy, _import_error = None, error


# What an error of CUDA or CuPy is likely to mean: words in its message, and their cause and cure. The first entry
# that fits is used. {wheel} is the CuPy package that is installed.
CAUSES = {
    ("cudaerrorinsufficientdriver", "driver version is insufficient"):
        "the NVIDIA driver is missing or too old for {wheel}: install a newer one, or use --device cpu",
    ("cudaerrornodevice", "no cuda-capable device", "libcuda.so", "nvcuda.dll"):
        "CuPy is installed but there is no NVIDIA driver or device: install the driver, or use --device cpu",
    ("cuda_fp16", "vector_types.h", "cannot open source file", "could not open source file", "cuda headers"):
        "CuPy finds no CUDA headers to compile with: pip install '{wheel}[ctk]', which brings them",
    ("nvrtc",):
        "CuPy cannot load NVRTC, which compiles its kernels: pip install '{wheel}[ctk]', which brings it",
    ("failed to load", "cannot open shared object file", "dll load failed", "could not find module"):
        "CuPy cannot load a library of CUDA: pip install '{wheel}[ctk]', which brings it",
    ("out of memory", "outofmemory"):
        "out of GPU memory: use a smaller --batch (with --accumulate) or --context, or close other programs on the GPU",
    ("no module named 'cupy'",):
        "CuPy is not installed: pip install 'cupy-cuda12x[ctk]' (or cupy-cuda13x), or use --device cpu",
}


def choose_device(wanted: str | None = None) -> str:
    """"cpu" or "cuda", for "auto", "cpu" or "cuda"; None takes the environment variable MINIGPT_DEVICE, or "auto".

    Raises InputError for another name, and, with cause and cure, where "cuda" is wanted and does not work.
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
        return _wrong_results()
    except Exception as error:  # a CUDA that is installed only in part may raise anything; the user needs its meaning
        return explain(error)


def _wrong_results() -> str | None:
    """None if memory, a kernel, a product by cuBLAS and a copy back give the right numbers."""
    x = cupy.arange(4, dtype=cupy.float32)
    x = x.reshape(2, 2)
    squares = x * x
    product = x @ x
    if float(squares.sum()) != 14.0 or float(product[1, 1]) != 11.0:
        return "the GPU computed 0 + 1 + 4 + 9 or 2 + 9 wrongly: do not trust it; use --device cpu"
    return None


@functools.cache
def _cupy_wheels() -> list[str]:
    """The names of all CuPy packages that are installed."""
    names = {distribution.metadata["Name"] for distribution in importlib.metadata.distributions()}
    return sorted(name for name in names if name and (name == "cupy" or name.startswith("cupy-cuda")))


def explain(error: BaseException) -> str:
    """The likely cause of a CUDA error and its cure, in one line."""
    text = f"{type(error).__name__}: {error}"
    lines = [line.strip()[:160] for line in text.splitlines() if line.strip()]
    wheel = (*_cupy_wheels(), "cupy-cuda12x")[0]
    for words, cause in CAUSES.items():
        for line in lines:
            if any(word in line.lower() for word in words):
                return f"{cause.format(wheel=wheel)} [{line}]"
    with_letters = [line for line in lines if any(map(str.isalpha, line))]  # CuPy draws a frame around its message
    return f"CuPy does not work here [{with_letters[-1]}]: see python -c 'import cupy; cupy.show_config()'"


def use_device(index: int) -> None:
    """Use GPU number `index`, modulo the number of GPUs. Without a GPU nothing is done."""
    if cupy is not None and cupy.is_available():
        devices = cupy.cuda.runtime.getDeviceCount()
        cupy.cuda.Device(index % devices).use()


def tensor_cores() -> bool:
    """Can this GPU multiply matrices of bfloat16? (From NVIDIA's Ampere on.)"""
    return int(cupy.cuda.Device().compute_capability) >= 80


_products = contextvars.ContextVar("products", default="float32")


@contextlib.contextmanager
def products_in(name: str):
    """`with products_in("tf32"): ...`: how products of float32 matrices are computed on a GPU inside.

    "float32": exactly. "tf32": the factors are rounded to 10 bits behind the point, which is faster on GPUs that have
    tensor cores. Afterwards it is as before. Each thread has its own choice. Raises InputError for another name.
    """
    if name not in ("float32", "tf32"):
        raise InputError(f"products in {name!r}: choose float32 or tf32")
    before = _products.set(name)
    try:
        yield
    finally:
        _products.reset(before)


def products_are_tf32() -> bool:
    """Are products of float32 matrices computed in tf32 here?"""
    return _products.get() == "tf32"


def device_name(device: str) -> str:
    """The name of the GPU, or "CPU"."""
    if device == "cpu":
        return "CPU"
    properties = cupy.cuda.runtime.getDeviceProperties(0)
    return properties["name"].decode()


def synchronize() -> None:
    """Wait until everything launched on the current stream is done."""
    cupy.cuda.get_current_stream().synchronize()


def current_stream() -> tuple[int, int]:
    """The number of the current GPU, and the address of its current stream."""
    return cupy.cuda.runtime.getDevice(), cupy.cuda.get_current_stream().ptr


def is_recording() -> bool:
    """Are launches on the current stream recorded as a CUDA graph, and not run?"""
    return cupy.cuda.get_current_stream().is_capturing()


def seconds_of(functions: list[Callable]) -> list[float]:
    """The seconds for which the GPU works on the launches of each function.

    The functions are called one after another; then the program waits for the GPU. Where the GPU is faster than
    Python's launches, the time of the launches is measured.
    """
    events = [cupy.cuda.Event()]
    events[0].record()
    for function in functions:
        function()
        event = cupy.cuda.Event()
        event.record()
        events.append(event)
    events[-1].synchronize()
    milliseconds = [cupy.cuda.get_elapsed_time(*pair) for pair in itertools.pairwise(events)]
    return [time / 1e3 for time in milliseconds]


@functools.cache
def name_and_driver(device: int) -> tuple[str, int]:
    """The name of GPU number `device`, and the version of CUDA that its driver is made for: 13000 for 13.0."""
    properties = cupy.cuda.runtime.getDeviceProperties(device)
    return properties["name"].decode(), cupy.cuda.runtime.driverGetVersion()


def kernel_folder() -> str | None:
    """The folder in which CuPy keeps what it has compiled; None where it is told to keep it in memory alone."""
    if os.environ.get("CUPY_CACHE_IN_MEMORY") == "1":
        return None
    return os.environ.get("CUPY_CACHE_DIR") or os.path.expanduser("~/.cupy/kernel_cache")  # as CuPy's manual says


def second_stream():
    """A new stream. Its work waits for that of no other one, unless `on_stream` or `wait_for` says so."""
    return cupy.cuda.Stream(non_blocking=True)


@contextlib.contextmanager
def on_stream(stream):
    """Inside, work is launched on this stream. It begins when the current stream has done what it was given before."""
    before = cupy.cuda.Event(disable_timing=True)
    before.record(cupy.cuda.get_current_stream())
    stream.wait_event(before)
    with stream:
        yield


def wait_for(stream) -> None:
    """What is launched next on the current stream begins when this one is done. The processor does not wait."""
    done = cupy.cuda.Event(disable_timing=True)
    done.record(stream)
    cupy.cuda.get_current_stream().wait_event(done)


def available_memory(device: str) -> int | None:
    """Bytes that new arrays can take on a GPU: what is free there, and what CuPy's pool holds unused. None on a CPU."""
    if device == "cpu":
        return None
    pool = cupy.get_default_memory_pool()
    free = cupy.cuda.runtime.memGetInfo()[0]
    return free + pool.free_bytes()


def held_memory() -> int:
    """Bytes of GPU memory that CuPy's pool holds, in use or kept for the next array."""
    return cupy.get_default_memory_pool().total_bytes()


def free_memory() -> None:
    """Return to the GPU the memory that the pool holds unused."""
    cupy.get_default_memory_pool().free_all_blocks()


def nccl_problem() -> str | None:
    """Why this process has no NCCL, in one line, or None."""
    from cupy.cuda import nccl

    if nccl.available:
        return None
    wheel = (*_cupy_wheels(), "cupy-cuda12x")[0]
    package = "nvidia-nccl-cu13" if "cuda13" in wheel else "nvidia-nccl-cu12"
    return f"NCCL is not installed: pip install {package}"


def place() -> str:
    """Where in its machine the current GPU is, on the PCI bus: the same in every process that uses this GPU.

    The number of a GPU tells less: with CUDA_VISIBLE_DEVICES each process may have its own number 0.
    """
    return cupy.cuda.Device().pci_bus_id


def nccl(size: int, rank: int, broadcast: Callable) -> Callable:
    """A function that sums a list of arrays, float32 or float64, in place over the GPUs of `size` processes.

    All processes give arrays of the same sizes and dtypes, in the same sequence. rank: the number of this process.
    broadcast: a function that returns, in every process, what the first one passes.
    """
    from cupy.cuda import nccl

    identifier = nccl.get_unique_id() if rank == 0 else None
    identifier = broadcast(identifier)
    communicator = nccl.NcclCommunicator(size, identifier, rank)
    types = {"float32": nccl.NCCL_FLOAT32, "float64": nccl.NCCL_FLOAT64}

    def all_reduce(arrays: list) -> None:
        stream = cupy.cuda.get_current_stream().ptr
        contiguous = [cupy.ascontiguousarray(array) for array in arrays]
        nccl.groupStart()  # until groupEnd nothing is sent: small arrays then share a kernel and a message
        try:
            for array in contiguous:
                where = array.data.ptr  # read and written: in place
                communicator.allReduce(where, where, array.size, types[array.dtype.name], nccl.NCCL_SUM, stream)
        finally:
            nccl.groupEnd()
        for array, total in zip(arrays, contiguous, strict=True):
            if total is not array:
                array[...] = total

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


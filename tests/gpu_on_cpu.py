"""A whole GPU without one: CuPy's arrays as strict_cupy plays them, and on them the kernels as cuda_on_cpu does."""

from types import SimpleNamespace

import cuda_on_cpu
import recorded_graph
import strict_cupy

from minigpt.device import gpu
from minigpt.ops.cuda import kernels, products

H100 = SimpleNamespace(compute_capability="90")


class Module:
    """Has get_function(name), as CuPy's RawModule."""

    def __init__(self, source: str):
        self._played = cuda_on_cpu.Module(source)

    def get_function(self, name: str):
        """A function of (grid, block, arguments)."""
        played = self._played.get_function(name)

        def function(grid, block, arguments):
            numbers = [a._array if isinstance(a, strict_cupy.ndarray) else a for a in arguments]
            played(grid, block, tuple(numbers))

        return function


def address(array: strict_cupy.ndarray) -> int:
    """In place of kernels.address."""
    return cuda_on_cpu.address(array._array)


def install(put) -> None:
    """Put the stand-ins in the places of CuPy and of its compiler. put(owner, name, value) sets an attribute.

    Products are those of CuPy, for there is no cuBLASLt. No step is recorded as a graph.
    """
    runtime = SimpleNamespace(**vars(strict_cupy.runtime), getDevice=lambda: 0)
    recorded_graph.install(put, runtime=runtime, Device=lambda: H100)
    put(gpu, "cupy", strict_cupy.cupy)
    put(gpu, "_cupy_wheels", lambda: ["strict-cupy"])
    put(kernels, "ARRAY", strict_cupy.ndarray)
    put(kernels, "compile", Module)
    put(kernels, "address", address)
    put(products, "by_cublaslt", False)
    kernels._compiled.cache_clear()

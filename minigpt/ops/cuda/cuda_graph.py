"""CUDA graphs: a few hundred small launches, recorded once and then repeated by a single one."""

import warnings
from collections.abc import Callable

from minigpt.device import gpu
from minigpt.device.arrays import Array


class Recorded:
    """A function of arrays that is recorded at its first call, and repeated by every later one.

    function: computes from its arguments, which keep their shapes, and from arrays that stay where they are, such as
    weights. It launches kernels and reads none of their results: while it is recorded nothing is computed. What it
    returns is overwritten by the next call. Where recording fails a warning says so, and the function itself is called.
    """

    def __init__(self, function: Callable):
        self.function = function
        self.inputs = None
        self.result = None
        self.graph = None
        self._pool = None

    def __call__(self, *arrays: Array):
        """function(*arrays), arrays of NumPy or CuPy of the shapes of the first call."""
        cupy = gpu.cupy
        arrays = [cupy.asarray(array) for array in arrays]
        if self.inputs is None:
            self.inputs = [array.copy() for array in arrays]
            try:
                self._record(cupy)
            except RuntimeError as error:  # CuPy's own, or CUDA's; of two the first is the cause
                cause = error.__context__ or error
                warning = f"a step cannot be recorded, so its kernels are launched one by one: {cause}"
                warnings.warn(warning, stacklevel=2)
        if self.graph is None:
            return self.function(*arrays)
        for recorded, given in zip(self.inputs, arrays, strict=True):
            recorded[...] = given
        self.graph.launch()
        return self.result

    def _record(self, cupy):
        """The memory comes from a separate pool: between two repetitions nothing else may use it."""
        self._pool = cupy.cuda.MemoryPool()
        stream = cupy.cuda.Stream(non_blocking=True)
        gpu.synchronize()  # what is read here has been launched on another stream
        with stream, cupy.cuda.using_allocator(self._pool.malloc):
            for _ in range(2):  # kernels are compiled, algorithms of products are found, the pool fills
                self.function(*self.inputs)
            stream.begin_capture()
            try:
                self.result = self.function(*self.inputs)
            finally:
                graph = stream.end_capture()
            stream.synchronize()
        self.graph = graph

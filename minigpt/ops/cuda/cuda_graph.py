"""CUDA graphs: a few hundred small launches, recorded once and then repeated by a single one."""

import warnings
from collections.abc import Callable
from typing import Any

from minigpt.device import gpu
from minigpt.device.arrays import Array


class Recorded:
    """A function of arrays that is recorded at its first call, and repeated by every later one.

    function: computes from its arguments, which keep their shapes, and from arrays that stay where they are, such as
    weights. It launches kernels and reads none of their results: while it is recorded nothing is computed. What it
    returns is overwritten by the next call. Where recording fails, also for want of memory, a warning says so, and the
    function itself is called, now and later.
    """

    def __init__(self, function: Callable):
        self.function = function
        self.inputs: list[Array] | None = None
        self.result: Any = None
        self.graph: Any = None
        self._pool: Any = None

    def __call__(self, *arrays: Array):
        """function(*arrays), arrays of NumPy or CuPy of the shapes of the first call."""
        cupy = gpu.cupy
        arrays = [cupy.asarray(array) for array in arrays]
        if self.inputs is None:
            self.inputs = [array.copy() for array in arrays]
            problem = self._problem_of_recording(cupy)
            if problem is not None:
                self._pool = None  # all its arrays have gone with the error, and with it goes its memory
                warning = f"a step cannot be recorded, so its kernels are launched one by one: {problem}"
                warnings.warn(warning, stacklevel=2)
        if self.graph is None:
            return self.function(*arrays)
        for recorded, given in zip(self.inputs, arrays, strict=True):
            recorded[...] = given
        self.graph.launch()
        return self.result

    def _problem_of_recording(self, cupy) -> str | None:
        """Record the function; why that failed, in one line, or None.

        Only words are kept of an error: with its traceback all arrays of these functions would stay in memory.
        """
        try:
            self._record(cupy)
        except (RuntimeError, MemoryError) as error:  # CuPy's own, or CUDA's; of two the first is the cause
            return _in_one_line(error.__context__ or error)
        return None

    def _record(self, cupy):
        """The memory comes from a separate pool: between two repetitions nothing else may use it."""
        gpu.free_memory()  # what another pool holds unused
        self._pool = cupy.cuda.MemoryPool()
        stream = cupy.cuda.Stream(non_blocking=True)
        gpu.synchronize()  # what is read here has been launched on another stream
        with stream, cupy.cuda.using_allocator(self._pool.malloc):
            for _ in range(2):  # kernels are compiled, algorithms of products are found, the pool fills
                self.function(*self.inputs)
            stream.begin_capture()
            try:
                result = self.function(*self.inputs)
            finally:
                graph = stream.end_capture()
            stream.synchronize()
        self.graph = graph
        self.result = result


def _in_one_line(error: BaseException) -> str:
    return " ".join(str(error).split()) or type(error).__name__

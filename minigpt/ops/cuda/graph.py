"""CUDA graphs: a few hundred small orders to a GPU, recorded once and then given as a single one."""

import warnings
from collections.abc import Callable

from minigpt.device import gpu
from minigpt.device.arrays import Array


class Recorded:
    """A function of arrays that is recorded at its first call, and repeated by every later one.

    function: computes from its arguments, which keep their shapes, and from arrays that stay where they are, such as
    weights. It launches kernels and asks for no number of theirs: while it is recorded nothing is computed. What it
    returns is overwritten by the next call. Where recording fails a warning says so, and the function itself is called.
    """

    def __init__(self, function: Callable):
        self.function = function
        self.inputs = self.result = self.graph = self._pool = None

    def __call__(self, *arrays: Array):
        cupy = gpu.cupy
        arrays = [cupy.asarray(array) for array in arrays]
        if self.inputs is None:
            self.inputs = [array.copy() for array in arrays]
            try:
                self._record(cupy)
            except RuntimeError as error:  # CuPy's own, or CUDA's; of two the first is the cause
                says = f"a step cannot be recorded, and is ordered piece by piece: {error.__context__ or error}"
                warnings.warn(says, stacklevel=2)
        if self.graph is None:
            return self.function(*arrays)
        for mine, given in zip(self.inputs, arrays, strict=True):
            mine[...] = given
        self.graph.launch()
        return self.result

    def _record(self, cupy):
        """The memory comes from a pool of its own: nobody else may get it between two repetitions."""
        self._pool, stream = cupy.cuda.MemoryPool(), cupy.cuda.Stream(non_blocking=True)
        gpu.synchronize()  # what is read here has been ordered on another stream
        with stream, cupy.cuda.using_allocator(self._pool.malloc):
            for _ in range(2):  # kernels are compiled, products find their algorithms, the pool fills
                self.function(*self.inputs)
            stream.begin_capture()
            try:
                self.result = self.function(*self.inputs)
            finally:
                graph = stream.end_capture()
            stream.synchronize()
        self.graph = graph

"""In the place of CuPy's RawModule: the launches of a module in PTX are played, in several orders of the threads."""

import functools
import itertools

import numpy as np

from .faults import Fault
from .memory import GlobalMemory, bytes_needed
from .player import play
from .program import Program
from .reader import DTYPES, Kernel, read

ORDERS = (None, 1)  # seeds: the plain order, and one that is drawn
SHARED = 48 * 1024  # bytes that a block has without being asked for more
_known = {}  # address: array, where a table of addresses has been made


def address(array) -> int:
    """In place of kernels.address: what such a table leads to is played on copies too."""
    _known[array.ctypes.data] = array
    return array.ctypes.data


class Module:
    """Has get_function(name), as CuPy's RawModule. text: of a module in PTX."""

    def __init__(self, text: str):
        self.kernels = read(text)
        self.programs = {}

    def get_function(self, name: str):
        """A function of (grid, block, arguments), which are NumPy arrays and numbers."""
        return functools.partial(self._launch, name)

    def _launch(self, name, grid, block, arguments):
        kernel = self.kernels[name]
        _check_sizes(kernel, grid, block)
        if name not in self.programs:
            self.programs[name] = Program(kernel)
        arrays = _arrays_of(arguments)
        left = []
        for seed in ORDERS:
            memory = GlobalMemory(list(arrays.values()))
            given = {}
            for (parameter, kind), value in zip(kernel.parameters.items(), arguments, strict=True):
                given[parameter] = _given(value, DTYPES[kind], arrays, memory)
            try:
                play(self.programs[name], grid, block, given, memory, seed)
            except Fault as fault:
                raise Fault(f"{name}: {fault}") from None
            left.append(memory)
        for i, array in enumerate(arrays.values()):
            for one, other in itertools.pairwise(left):
                same = one.bytes_of(i).tobytes() == other.bytes_of(i).tobytes()
                assert same, f"{name}: other bits in another order of the threads"
            if not _is_table(array):
                array[...] = np.frombuffer(left[0].bytes_of(i).tobytes(), array.dtype).reshape(array.shape)


def _check_sizes(kernel: Kernel, grid, block) -> None:
    threads = int(np.prod(block))
    assert 1 <= min(*grid, *block) and max(grid[1:]) < 65536 and grid[0] < 2**31, (grid, block)
    assert threads <= (kernel.most_threads or 1024) and block[2] <= 64, f"{kernel.name}: a block of {threads} threads"
    shared = bytes_needed(kernel.shared)
    assert shared <= SHARED, f"{kernel.name}: {shared} bytes of shared memory"


def _arrays_of(arguments) -> dict[tuple, np.ndarray]:
    """{where it is: array}, also those that a table of addresses leads to."""
    arrays = {}
    for value in arguments:
        if isinstance(value, np.ndarray):
            arrays[_place(value)] = value
            if _is_table(value):
                for where in value.ravel().tolist():
                    if where:
                        arrays[_place(_known[where])] = _known[where]
    return arrays


def _given(value, dtype: np.dtype, arrays, memory: GlobalMemory) -> np.ndarray:
    """An argument as the kernel finds it: an address, or a number."""
    if not isinstance(value, np.ndarray):
        value = np.asarray(value).reshape(1)
        assert value.itemsize == dtype.itemsize, "a number of the wrong size"
        return value
    numbers = {place: i for i, place in enumerate(arrays)}
    number = numbers[_place(value)]
    if _is_table(value):
        inside = [w and memory.addresses[numbers[_place(_known[w])]] for w in value.ravel().tolist()]
        memory.bytes_of(number).view(np.uint64)[:] = inside
    return np.array([memory.addresses[number]], np.uint64)


def _place(array) -> tuple[int, int]:
    return array.ctypes.data, array.nbytes


def _is_table(array) -> bool:
    return array.dtype == np.uint64

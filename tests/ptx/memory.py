"""Memory as a kernel sees it: that of the GPU, that of a block, that of a thread. Every access is checked.

An access must lie in one array and begin at a multiple of its size, and must be no race. What a block shares begins as
NaN, may be read only after it was written, and a copy that is under way (cp.async) arrives when it is waited for.
"""

import numpy as np

from .faults import blame
from .races import Shadow, places_of
from .reader import Variable

WALL = 1024  # bytes between two variables
FAR = 32  # two arrays of the GPU's memory are 2^32 bytes apart, so that no wrong index leads from one to the other
MARGIN = 1 << 30  # an address counted backwards from an array is still told as one of that array


class Memory:
    """Bytes, and typed access to them. shadow: None where one thread alone comes."""

    def __init__(self, data: np.ndarray, shadow: Shadow | None):
        self.data, self.shadow = data, shadow

    def load(self, threads, lanes, address, dtype: np.dtype, count: int) -> list[np.ndarray]:
        """`count` numbers from each address on: an array for each, with one number of each lane."""
        size = dtype.itemsize * count
        positions = self.positions(threads, lanes, address, size, "reads")
        if self.shadow is not None:
            self.check_read(threads, lanes, places_of(positions, size))
        words, first = self.data.view(dtype), positions // dtype.itemsize
        return [words[first + i] for i in range(count)]

    def store(self, threads, lanes, address, values: list[np.ndarray]) -> None:
        """The other way."""
        dtype = values[0].dtype
        size = dtype.itemsize * len(values)
        positions = self.positions(threads, lanes, address, size, "writes")
        if self.shadow is not None:
            assert size > 1, "single bytes are read, and never written"
            self.check_write(threads, lanes, places_of(positions, size))
        words, first = self.data.view(dtype), positions // dtype.itemsize
        for i, value in enumerate(values):
            words[first + i] = value

    def positions(self, threads, lanes, address, size: int, does: str) -> np.ndarray:
        """Where in `data` the accesses begin."""
        address = address.astype(np.int64)
        odd = address % size != 0
        if odd.any():
            blame(threads, lanes, odd, f"{does} {size} bytes at an address that is no multiple of {size}")
        positions, inside = self.find(threads, lanes, address, size)
        if not inside.all():
            blame(threads, lanes, ~inside, f"{does} {size} bytes out of bounds, {self.where(address[~inside][0])}")
        return positions

    def find(self, threads, lanes, address, size):
        """Positions, and which of the accesses lie in an array."""
        raise NotImplementedError

    def where(self, address: int) -> str:
        """What an address that is out of bounds is near to."""
        raise NotImplementedError

    def check_read(self, threads, lanes, places) -> None:
        racing = self.shadow.read(places, threads.who(lanes))
        if racing.any():
            blame(threads, lanes, racing.any(axis=1), "a race: it reads what another thread writes")

    def check_write(self, threads, lanes, places) -> None:
        racing = self.shadow.write(places, threads.who(lanes))
        if racing.any():
            blame(threads, lanes, racing.any(axis=1), "a race: it writes where another thread reads or writes")


class GlobalMemory(Memory):
    """The arrays that a launch is given, each as far from a multiple of 16 bytes as it is in the processor's memory."""

    def __init__(self, arrays: list[np.ndarray]):
        self.sizes = np.array([a.nbytes for a in arrays], np.int64)
        odds = np.array([a.ctypes.data % 16 for a in arrays], np.int64)
        ends = np.cumsum(odds + -(-self.sizes // 16) * 16 + 16)
        self.begins = np.concatenate([[0], ends // 16 * 16])[:-1] + odds
        size = int(ends[-1]) // 16 * 16 + 16 if arrays else 16
        super().__init__(np.zeros(size, np.uint8), Shadow(size))
        self.addresses = [(i + 1 << FAR) + MARGIN + int(odd) for i, odd in enumerate(odds)]
        self.first = np.array(self.addresses, np.int64)
        for begin, array in zip(self.begins, arrays, strict=True):
            self.data[begin : begin + array.nbytes] = np.frombuffer(array.tobytes(), np.uint8)

    def bytes_of(self, i: int) -> np.ndarray:
        """What array i holds now."""
        return self.data[self.begins[i] : self.begins[i] + self.sizes[i]]

    def find(self, threads, lanes, address, size):
        number = (address >> FAR) - 1
        known = (number >= 0) & (number < len(self.sizes))
        number = np.where(known, number, 0)
        offset = address - self.first[number]
        return self.begins[number] + offset, known & (offset >= 0) & (offset + size <= self.sizes[number])

    def where(self, address):
        number = (int(address) >> FAR) - 1
        if not 0 <= number < len(self.sizes):
            return "in no array"
        return f"at byte {address - self.first[number]} of an array of {self.sizes[number]} (number {number})"


class Variables(Memory):
    """The variables that a kernel declares: once for each block, or once for each thread."""

    def __init__(self, variables: list[Variable], copies: int, shadow: bool):
        self.begins, self.size = laid_out(variables)
        self.variables = variables
        self.ends = np.zeros(self.size, np.int64)  # of the variable that a byte belongs to; of a wall: 0
        for variable in variables:
            begin = self.begins[variable.name]
            self.ends[begin : begin + variable.size] = begin + variable.size
        super().__init__(np.full(copies * self.size, 0xFF, np.uint8), Shadow(copies * self.size) if shadow else None)

    def find(self, threads, lanes, address, size):
        known = (address >= 0) & (address < self.size)
        address = np.where(known, address, 0)
        return self.copy_of(threads, lanes) * self.size + address, known & (address + size <= self.ends[address])

    def where(self, address):
        near = [v for v in self.variables if self.begins[v.name] <= address]
        if not near:
            return "before the first variable"
        variable = max(near, key=lambda v: self.begins[v.name])
        return f"at byte {address - self.begins[variable.name]} of {variable.size} of {variable.name}"


class LocalMemory(Variables):
    """What a thread has for itself beside its registers."""

    def __init__(self, variables, threads: int):
        super().__init__(variables, threads, shadow=False)

    def copy_of(self, threads, lanes):
        return threads.numbers(lanes)


class SharedMemory(Variables):
    """What the threads of a block share."""

    def __init__(self, variables, blocks: int):
        super().__init__(variables, blocks, shadow=True)
        self.under_way = np.zeros(len(self.shadow.writers.thread), bool)  # of each place: does a copy come?
        self.copies = []  # (lanes, positions, what they bring)

    def copy_of(self, threads, lanes):
        return threads.pick(threads.block_here, lanes)

    def check_read(self, threads, lanes, places):
        self._check_arrived(threads, lanes, places)
        unwritten = ~self.shadow.is_written(places)
        if unwritten.any():
            blame(threads, lanes, unwritten.any(axis=1), "it reads what no thread has written: NaN")
        super().check_read(threads, lanes, places)

    def check_write(self, threads, lanes, places):
        self._check_arrived(threads, lanes, places)
        super().check_write(threads, lanes, places)

    def _check_arrived(self, threads, lanes, places):
        early = self.under_way[places]
        if early.any():
            blame(threads, lanes, early.any(axis=1), "it comes before a copy has arrived there: the copy is late")

    def copy_later(self, threads, lanes, address, brought: np.ndarray) -> None:
        """cp.async. brought: (lanes, bytes). Until it is waited for, nobody may read there, or write."""
        size = brought.shape[1]
        positions = self.positions(threads, lanes, address, size, "copies")
        places = places_of(positions, size)
        self.check_write(threads, lanes, places)
        self.under_way[places] = True
        for i in range(size):
            self.data[positions + i] = 0xFF
        self.copies.append((threads.numbers(lanes), positions, brought))

    def arrive(self, threads, lanes) -> None:
        """The copies that these lanes have started are there."""
        waits = np.zeros(threads.n, bool)
        waits[threads.numbers(lanes)] = True
        left = []
        for of, positions, brought in self.copies:
            now = waits[of]
            if now.any():
                self._bring(threads, of[now], positions[now], brought[now])
            if not now.all():
                left.append((of[~now], positions[~now], brought[~now]))
        self.copies = left

    def _bring(self, threads, lanes, positions, brought):
        places = places_of(positions, brought.shape[1])
        self.under_way[places] = False
        self.data[positions[:, None] + np.arange(brought.shape[1])] = brought
        super().check_write(threads, lanes, places)


def laid_out(variables: list[Variable]) -> tuple[dict[str, int], int]:
    """{name: where it begins}, with walls between them, and how many bytes that takes."""
    begins, end = {}, 0
    for variable in variables:
        begins[variable.name] = end
        end += -(-variable.size // 16) * 16 + WALL
    return begins, end


def bytes_needed(variables: list[Variable]) -> int:
    """Without walls: what a kernel takes."""
    end = 0
    for variable in variables:
        end = -(-end // variable.align) * variable.align + variable.size
    return end

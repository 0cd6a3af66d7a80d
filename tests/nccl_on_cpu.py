"""NCCL where there is no GPU: threads are the processes, and what they send are arrays of NumPy at their addresses.

Nothing is sent before a group ends, as in NCCL. Each process must then have started the same sums in the same sequence.
"""

import ctypes
import itertools
import sys
import threading
from types import SimpleNamespace

import numpy as np
from ranks import together

from minigpt.device import gpu

STREAM = 5
C_TYPES = {"float32": ctypes.c_float, "float64": ctypes.c_double}


class OnGpu(np.ndarray):
    """An array that CuPy could have made."""

    @property
    def data(self) -> SimpleNamespace:
        """Where it lies."""
        return SimpleNamespace(ptr=self.ctypes.data)


def on_gpu(array) -> OnGpu:
    """A copy of an array there."""
    return np.array(array).view(OnGpu)


class Process(threading.local):
    """What NCCL knows of one process."""

    def __init__(self):
        self.depth = 0  # groups that have begun
        self.wanted = []  # sums that are not sent yet, as (communicator, send, receive, count, type)
        self.log = []  # "start", "end", or what allReduce was given


class Nccl:
    """In the place of cupy.cuda.nccl. slots: {rank: the communicator of the stand-in for MPI}"""

    available = True
    NCCL_FLOAT32 = "float32"
    NCCL_FLOAT64 = "float64"
    NCCL_SUM = "sum"

    def __init__(self):
        self.slots = {}
        self.process = Process()
        self.watch = lambda stream: None  # a test may look at the stream of each sum
        self.NcclCommunicator = lambda size, name, rank: Communicator(self, size, name, rank)

    def get_unique_id(self) -> str:
        """The name under which the processes meet."""
        return "the name"

    def groupStart(self) -> None:  # noqa: N802 - CuPy's names
        """Nothing is sent until the group ends."""
        self.process.depth += 1
        self.process.log.append("start")

    def groupEnd(self) -> None:  # noqa: N802
        """Send what the group holds."""
        assert self.process.depth > 0, "a group ends that has not begun"
        self.process.depth -= 1
        self.process.log.append("end")
        if self.process.depth == 0:
            self.send()

    def send(self) -> None:
        """Compute the sums that were started, in place where they are read and written at one address."""
        wanted, self.process.wanted = self.process.wanted, []
        for communicator, send, receive, count, kind in wanted:
            exchange = self.slots[communicator.rank].allgather
            everywhere = exchange((send, count, kind))
            assert {one[1:] for one in everywhere} == {(count, kind)}, f"they send different things: {everywhere}"
            total = sum(_numbers(at, count, kind).copy() for at, _, _ in everywhere)
            exchange(None)  # all have read
            _numbers(receive, count, kind)[:] = total
            exchange(None)  # all have written


class Communicator:
    """Of one process."""

    def __init__(self, nccl: Nccl, size: int, name: str, rank: int):
        assert name == "the name" and size == len(nccl.slots)
        self.nccl = nccl
        self.rank = rank

    def allReduce(self, send, receive, count, kind, operation, stream):  # noqa: N802
        """In the order of ncclAllReduce's arguments."""
        assert operation == "sum"
        process = self.nccl.process
        self.nccl.watch(stream)
        process.log.append((count, kind, stream, send, receive))
        process.wanted.append((self, send, receive, count, kind))
        if process.depth == 0:
            self.nccl.send()


def _numbers(address: int, count: int, kind: str) -> np.ndarray:
    """The numbers at an address."""
    return np.ctypeslib.as_array(ctypes.cast(address, ctypes.POINTER(C_TYPES[kind])), (count,))


def install(put) -> Nccl:
    """A machine with two GPUs, and NCCL. Each process sees one of them alone. put: pytest's monkeypatch."""
    made = Nccl()
    seen = itertools.count()
    cuda = SimpleNamespace(
        nccl=made,
        runtime=SimpleNamespace(getDeviceCount=lambda: 1),
        Device=lambda: SimpleNamespace(pci_bus_id=f"0000:0{next(seen)}:00.0"),
        get_current_stream=lambda: SimpleNamespace(ptr=STREAM),
    )
    cupy = SimpleNamespace(
        cuda=cuda,
        ndarray=OnGpu,
        asarray=on_gpu,
        asnumpy=np.array,
        ascontiguousarray=lambda a: a if a.flags.c_contiguous else on_gpu(a),
        concatenate=lambda arrays: on_gpu(np.concatenate(arrays)),
    )
    put.setattr(gpu, "cupy", cupy)
    put.setattr(gpu, "_cupy_wheels", lambda: ["cupy-cuda13x"])
    put.setitem(sys.modules, "cupy", cupy)
    put.setitem(sys.modules, "cupy.cuda", cuda)
    return made


def of_gpus(nccl: Nccl, function):
    """function(ranks) of two processes, which meet for NCCL too."""

    def run(one):
        nccl.slots[one.rank] = one.comm
        one.comm.bcast = lambda value: one.comm.allgather(value)[0]
        one.gather(None)
        return function(one)

    return together(2, run)

"""Several processes that train one model: which rows of a batch each takes, and how their gradients are added.

Every process holds the whole model. Each takes its rows of every batch and divides its loss by the number of targets
of the whole batch; so the gradients only have to be added, and then all make the same update. What dropout drops does
not depend on the process (see ops/random_keys.py). Messages are sent by mpi4py, or through memory that the processes
of one machine share (see local.py); between GPUs by NCCL, through CuPy.
"""

import atexit
import collections
import contextlib
import os
import platform
import sys
import time
import warnings
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from minigpt.device import gpu, local
from minigpt.device.arrays import Array, array_module, device_of, to_device, to_numpy
from minigpt.device.threads import set_threads
from minigpt.errors import InputError

# environment variables in which mpirun gives the number of processes
LAUNCHERS = ("OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "PMIX_SIZE", "MPI_LOCALNRANKS")
SMALL = 1 << 15  # bytes: gradients below are sent together, in messages
BUCKET = 25 << 20  # bytes: between GPUs about so many are sent together, 25 MiB as in PyTorch
GRACE = 2.0  # seconds that the first process has to report an error, before another process does


class Ranks:
    """The processes of a run. Without a communicator there is only this one, and nothing to send.

    comm: an mpi4py communicator. rank: which process this is, from 0; size: how many there are.
    """

    def __init__(self, comm: Any = None):
        self.comm = comm
        self.rank = 0
        self.size = 1
        if comm is not None:
            self.rank = comm.Get_rank()
            self.size = comm.Get_size()
        machines = self.gather(platform.node())
        machine = machines[self.rank]
        self.here = machines.count(machine)  # how many of the processes are on this machine
        self.place = machines[: self.rank].count(machine)  # which of these this one is, from 0
        self._between_gpus: Any = None  # a function that sums arrays by NCCL, or False; None until it is needed

    @property
    def first(self) -> bool:
        """Is this the process that prints, and writes files?"""
        return self.rank == 0

    def rows(self, batch: int, parts: int = 1) -> slice:
        """The rows of a batch that this process takes. parts: it computes them in so many equal parts.

        Raises InputError where the rows cannot be divided equally by the number of processes and of parts.
        """
        unit = self.size * parts
        if batch % unit:
            below = batch // unit * unit
            choose = f"{below} or {below + unit}" if below else unit
            in_parts = f", each in --accumulate {parts} parts" if parts > 1 else ""
            raise InputError(f"--batch {batch} cannot be shared by {self.size} processes{in_parts}: choose {choose}")
        share = batch // self.size
        return slice(self.rank * share, (self.rank + 1) * share)

    def sum(self, arrays: Iterable[Array]) -> None:
        """Each array becomes, in place, its sum over the processes; the same bits in each of them.

        Between GPUs NCCL adds them, a bucket at a time. In messages small ones are sent together: a message of a few
        bytes takes as long as one of many.
        """
        if self.size == 1:
            return
        arrays = list(arrays)
        on_gpu = [array for array in arrays if device_of(array) == "cuda"]
        all_reduce = self.nccl() if on_gpu else None
        if all_reduce:
            for bucket in buckets_of([array.nbytes for array in on_gpu]):
                all_reduce([on_gpu[place] for place in bucket])
            arrays = [array for array in arrays if device_of(array) == "cpu"]
        small = collections.defaultdict(list)  # device and dtype -> arrays
        for array in arrays:
            if array.nbytes < SMALL:
                small[device_of(array), array.dtype].append(array)
            else:
                array[...] = self._all_reduce(array)
        for alike in small.values():
            self._sum_together(alike)

    def _sum_together(self, arrays: list[Array]) -> None:
        """The same for arrays of one device and one dtype, as one message."""
        xp = array_module(arrays[0])
        total = self._all_reduce(xp.concatenate([array.reshape(-1) for array in arrays]))
        start = 0
        for array in arrays:
            part = total[start : start + array.size]
            array[...] = part.reshape(array.shape)
            start += array.size

    def total(self, number: float) -> float:
        """The sum of a number over the processes."""
        return number if self.size == 1 else float(sum(self.comm.allgather(float(number))))

    def gather(self, value: Any) -> list:
        """The value that each process gives here, in order. Each waits for the others."""
        return [value] if self.size == 1 else self.comm.allgather(value)

    def agree(self, named: dict[str, Any]) -> None:
        """Raises InputError, everywhere, where a value is not the same in all processes."""
        given = self.gather(named)
        first = given[0]
        for rank, other in enumerate(given[1:], start=1):
            for name, value in first.items():
                if other[name] != value:
                    where = f"{value} in process 0 and {other[name]} in process {rank}"
                    raise InputError(f"the processes disagree: {name} is {where}")

    def _all_reduce(self, array: Array) -> Array:
        """The sum of an array over the processes, by a message between them: a new array."""
        mine = np.ascontiguousarray(to_numpy(array))
        total = np.empty_like(mine)
        self.comm.Allreduce(mine, total)
        return to_device(total, device_of(array))

    def nccl(self) -> Any:
        """A function that sums a list of arrays over the GPUs; False where NCCL cannot: the first process says why."""
        if self._between_gpus is None:
            problem = self._problem_of_nccl()
            if problem and self.first:
                slow = "gradients are added by the processors, which takes long, and not between the GPUs"
                warnings.warn(f"{slow}: {problem}", stacklevel=3)
            self._between_gpus = not problem and gpu.nccl(self.size, self.rank, self.comm.bcast)
        return self._between_gpus

    def _problem_of_nccl(self) -> str | None:
        """Why NCCL cannot add arrays between the GPUs, in one line, the same in all processes; None where it can."""
        problems = [problem for problem in self.gather(gpu.nccl_problem()) if problem]
        if problems:
            return problems[0]
        gpus = set(self.gather(f"{platform.node()} {gpu.place()}"))
        if len(gpus) < self.size:
            return f"NCCL needs a GPU for each process, and {self.size} processes share {len(gpus)}"
        return None


def buckets_of(sizes: Sequence[int]) -> list[list[int]]:
    """Arrays of these sizes in bytes -> buckets of their places; what is in one bucket is sent together.

    The last arrays come first: the backward pass computes their gradients first. A bucket is full once it holds BUCKET
    bytes.
    """
    buckets = []
    room = 0
    for place in reversed(range(len(sizes))):
        if room <= 0:
            buckets.append([])
            room = BUCKET
        buckets[-1].append(place)
        room -= sizes[place]
    return buckets


ALONE = Ranks()


@contextlib.contextmanager
def started(threads: int | None = None, size: int | None = None, words: Sequence[str] = ()):
    """The processes that mpirun has started, or `size` processes of this machine: `with started() as ranks: ...`.

    Only the first one prints. If one fails all end, and that one reports its error. threads: for each process; None:
    the cores of this machine are divided among its processes, unless mpirun has done that. size: this one and others
    that run the command line `words`. Raises InputError where mpirun has started several processes and mpi4py is not
    installed, or where both mpirun and size are given.
    """
    with contextlib.ExitStack() as stack:
        if size is not None and processes() > 1:
            raise InputError(f"mpirun has started several processes: leave out --processes {size}")
        comm = _world() or local.joined()
        if comm is None and size is not None:
            comm = stack.enter_context(local.started(words, size))
        ranks = Ranks(comm)
        if ranks.size == 1:
            yield ALONE
            return
        gpu.use_device(ranks.place)
        set_threads(threads or _fair_threads(ranks.here))
        try:
            with contextlib.nullcontext() if ranks.first else _silence():
                yield ranks
        except SystemExit:  # another process has ended, and reports why
            raise
        except BaseException as error:
            if not ranks.first:  # where all have failed in the same way, the first one ends this sleep
                time.sleep(GRACE)
                print(f"in process {ranks.rank}:", end=" ", file=sys.stderr, flush=True)
            status = 130 if isinstance(error, KeyboardInterrupt) else 2
            atexit.register(ranks.comm.Abort, status)
            raise


def _fair_threads(processes_here: int) -> int:
    """How many threads one of so many processes on this machine may use."""
    if cores() < (os.cpu_count() or 1):  # mpirun has divided the cores
        return cores()
    return max(1, cores() // processes_here)


@contextlib.contextmanager
def _silence():
    """Inside, nothing is printed."""
    with open(os.devnull, "w", encoding="utf-8") as nowhere:
        with contextlib.redirect_stdout(nowhere), contextlib.redirect_stderr(nowhere):
            yield


def cores() -> int:
    """How many cores this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def processes() -> int:
    """How many processes mpirun has started, as far as one can tell without mpi4py."""
    return max(int(os.environ.get(name) or 1) for name in LAUNCHERS)


def _world() -> Any:
    """The communicator of all processes; None where mpirun has not started more than one."""
    if processes() < 2:
        return None
    try:
        from mpi4py import MPI
    except ImportError as error:
        missing = f"mpirun has started several processes, but there is no mpi4py ({error}): pip install mpi4py"
        raise InputError(missing) from error
    return MPI.COMM_WORLD

"""Several processes that train one model: who takes which rows of a batch, and how their gradients add up.

Every process holds the whole model. Each takes its rows of every batch and divides its loss by the number of targets
of the whole batch; so the gradients only have to be added, and then all make the same update. What is dropped does not
depend on who computes it (see `key`). Messages are mpi4py's; between GPUs they are NCCL's, through CuPy.
"""

import atexit
import contextlib
import os
import platform
import sys
import time
from collections.abc import Iterable
from typing import Any

import numpy as np

from minigpt.device import arrays, gpu
from minigpt.device.arrays import Array
from minigpt.device.threads import set_threads
from minigpt.errors import InputError

LAUNCHERS = ("OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "PMIX_SIZE", "MPI_LOCALNRANKS")  # what mpirun says to its processes
GRACE = 2.0  # seconds that the first process has to say what is wrong, before another one does


class Ranks:
    """The processes of a run. Without a communicator there is only this one, and nothing to send.

    comm: an mpi4py communicator. rank: which process this is, from 0; size: how many there are.
    """

    def __init__(self, comm: Any = None):
        self.comm = comm
        self.rank, self.size = (0, 1) if comm is None else (comm.Get_rank(), comm.Get_size())
        machines = self.gather(platform.node())
        self.here = machines.count(machines[self.rank])  # how many of them are on this machine, and which one is this
        self.place = machines[: self.rank].count(machines[self.rank])
        self._between_gpus: Any = None  # a function that sums an array by NCCL, or False; found out when it is needed

    @property
    def first(self) -> bool:
        """Is this the process that speaks, and writes files?"""
        return self.rank == 0

    def rows(self, batch: int, parts: int = 1) -> slice:
        """The rows of a batch that this process takes; they are computed in so many equal parts.

        Raises InputError where the processes, or the parts, cannot share equally.
        """
        unit = self.size * parts
        if batch % unit:
            choose = f"{batch // unit * unit} or {(batch // unit + 1) * unit}" if batch > unit else unit
            in_parts = f", each in --accumulate {parts} parts" if parts > 1 else ""
            raise InputError(f"--batch {batch} cannot be shared by {self.size} processes{in_parts}: choose {choose}")
        share = batch // self.size
        return slice(self.rank * share, (self.rank + 1) * share)

    def sum(self, arrays: Iterable[Array]) -> None:
        """Each array becomes, in place, its sum over the processes; the same bits in each of them."""
        if self.size > 1:
            for array in arrays:
                array[...] = self._all_reduce(array)

    def total(self, number: float) -> float:
        """The sum of a number over the processes."""
        return number if self.size == 1 else float(sum(self.comm.allgather(float(number))))

    def gather(self, value: Any) -> list:
        """The value that each process gives here, in order. Each waits for the others."""
        return [value] if self.size == 1 else self.comm.allgather(value)

    def agree(self, named: dict[str, Any]) -> None:
        """Raises InputError, everywhere, where a value is not the same in all processes."""
        given = self.gather(named)
        for rank, other in enumerate(given[1:], start=1):
            for name, value in given[0].items():
                if other[name] != value:
                    where = f"{value} in process 0 and {other[name]} in process {rank}"
                    raise InputError(f"the processes disagree: {name} is {where}")

    def _all_reduce(self, array: Array) -> Array:
        device = arrays.device_of(array)
        if device == "cuda" and self._between_gpus is None:
            each_its_own = all(self.gather(gpu.has_nccl(self.here)))
            self._between_gpus = each_its_own and gpu.nccl(self.size, self.rank, self.comm.bcast)
        if device == "cuda" and self._between_gpus:
            return self._between_gpus(array)
        mine = np.ascontiguousarray(arrays.to_numpy(array))
        total = np.empty_like(mine)
        self.comm.Allreduce(mine, total)
        return arrays.to_device(total, device)


ALONE = Ranks()


@contextlib.contextmanager
def started(threads: int | None = None):
    """The processes that mpirun has started, or this one alone: `with started() as ranks: ...`.

    Only the first one is heard. If one fails all end, and it says why. threads: for each process; None: the cores of
    this machine are shared out, unless mpirun has done that.
    """
    ranks = Ranks(_world())
    if ranks.size == 1:
        yield ALONE
        return
    gpu.use_device(ranks.place)
    set_threads(threads or max(1, cores() if cores() < (os.cpu_count() or 1) else cores() // ranks.here))
    try:
        with contextlib.ExitStack() as silence:
            if not ranks.first:
                nowhere = silence.enter_context(open(os.devnull, "w", encoding="utf-8"))
                silence.enter_context(contextlib.redirect_stdout(nowhere))
                silence.enter_context(contextlib.redirect_stderr(nowhere))
            yield ranks
    except BaseException as error:
        if not ranks.first:  # where all have failed alike, the first one ends this sleep
            time.sleep(GRACE)
            print(f"in process {ranks.rank}:", end=" ", file=sys.stderr, flush=True)
        atexit.register(ranks.comm.Abort, 130 if isinstance(error, KeyboardInterrupt) else 2)
        raise


def cores() -> int:
    """How many cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def processes() -> int:
    """How many processes mpirun has started, as far as one can tell without mpi4py."""
    return max(int(os.environ.get(name) or 1) for name in LAUNCHERS)


def _world() -> Any:
    """The communicator of all processes, if mpirun has started more than one."""
    if processes() < 2:
        return None
    try:
        from mpi4py import MPI
    except ImportError as error:
        raise InputError(f"mpirun has started several processes, but there is no mpi4py ({error}): "
                         "pip install mpi4py") from error  # fmt: skip
    return MPI.COMM_WORLD

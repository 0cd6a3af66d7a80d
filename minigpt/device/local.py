"""Processes of one machine that share memory: what mpirun and mpi4py are for several machines.

`minigpt train --processes N` starts N - 1 others, which run the same command line. They meet in a file that all of
them map into their memory. `Local` sends what `parallel.Ranks` sends; its methods have mpi4py's names.
"""

import contextlib
import json
import mmap
import os
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from minigpt.errors import InputError

PLACE = "MINIGPT_PROCESS"  # environment variable of a process that was started: file, rank, size
SLOT = 1 << 20  # bytes that a process can say at a time
LINE = 64  # bytes of a cache line: what two processes write lies in different ones
LENGTH = 8  # bytes in front of what is said: how long all of it is
PATIENCE = 2e-3  # seconds that a process looks again and again; then it sleeps, a little of the time that it waited
LONGEST = 1e-2  # seconds of a sleep
CHECK = 1.0  # seconds after which a process that waits looks whether the others are alive
GRACE = 3.0  # seconds that the others have to end, after the first one has


@contextlib.contextmanager
def started(words: Sequence[str], size: int) -> Iterator["Local"]:
    """Inside, `size` processes run the command line `words`, this one included. When it is left all have ended.

    Raises InputError for a number below 1, or where there is no room for the memory in which they meet.
    """
    if size < 1:
        raise InputError(f"--processes {size}: give 1 or more")
    path = meeting_place(size)
    others = []
    try:
        for rank in range(1, size):
            others.append(_start(words, f"{rank} {size} {path}"))
        first = Local(path, 0, size, others)
        first.allgather(None)  # all have mapped the file now, so it needs no name any more
        _remove(path)
        yield first
    except BaseException:
        for other in others:
            other.terminate()
        raise
    finally:
        for other in others:
            with contextlib.suppress(subprocess.TimeoutExpired):
                other.wait(GRACE)
            other.kill()
            other.wait()
        _remove(path)


def joined() -> "Local | None":
    """The place of this process among those that `started` has started; None where it was not started so."""
    place = os.environ.get(PLACE)
    if place is None:
        return None
    rank, size, path = place.split(" ", 2)
    one = Local(Path(path), int(rank), int(size))
    one.allgather(None)
    return one


def meeting_place(size: int) -> Path:
    """A new file of zeros with room for so many processes, in memory where the system has a folder there.

    Raises InputError where there is no room for it.
    """
    room = (size + 1) * LINE + 2 * size * SLOT
    folders = ["/dev/shm", tempfile.gettempdir()]
    for folder in folders:
        path = None
        try:
            handle, name = tempfile.mkstemp(prefix="minigpt-", dir=folder)
            path = Path(name)
            with open(handle, "wb") as file:
                file.write(bytes(room))  # written, not only promised: a full folder is noticed here
            return path
        except OSError:
            if path is not None:
                _remove(path)
    raise InputError(f"--processes {size}: no room for a file of {room / 1e6:.0f} MB in {' or '.join(folders)}")


def _remove(path: Path) -> None:
    """Remove a file, if it is there. Windows keeps one that is mapped."""
    with contextlib.suppress(OSError):
        path.unlink()


def _start(words: Sequence[str], place: str) -> subprocess.Popen:
    """Another process with the same command line and the same package."""
    package = str(Path(__file__).parents[2])
    paths = [package, os.environ.get("PYTHONPATH", "")]
    environment = os.environ | {PLACE: place, "PYTHONPATH": os.pathsep.join(filter(None, paths))}
    command = [sys.executable, "-m", "minigpt", *words]
    return subprocess.Popen(command, env=environment, stdin=subprocess.DEVNULL)


class Local:
    """One of the processes, and the memory in which they meet.

    Each has a counter and two slots. In each round all write into one of their slots, count, wait until all have
    counted, and read. The next round uses the other slots: nobody can come to the round after it before all have read.
    """

    def __init__(self, path: Path, rank: int, size: int, others: Sequence[subprocess.Popen] = ()):
        self.rank = rank
        self.size = size
        self.others = others  # the first process has started them
        self._parent = os.getppid()
        self._round = 0
        with open(path, "r+b") as file:
            memory = np.frombuffer(mmap.mmap(file.fileno(), 0), np.uint8)
        lines = memory[: (size + 1) * LINE].reshape(size + 1, LINE)
        counters = lines.view(np.int64)[:, 0]
        self._counts = counters[:size]
        self._ended = counters[size:]  # 0, or 1 and the exit status with which all are to end
        self._slots = memory[(size + 1) * LINE :].reshape(2, size, SLOT)

    def Get_rank(self) -> int:
        """Which process this is, from 0."""
        return self.rank

    def Get_size(self) -> int:
        """How many processes there are."""
        return self.size

    def allgather(self, value: Any) -> list:
        """The value that each process gives here, in order: what JSON can say; a list arrives as a tuple."""
        mine = json.dumps(value).encode()
        mine = len(mine).to_bytes(LENGTH, "little") + mine
        slots = self._say(mine[:SLOT])
        lengths = [LENGTH + int.from_bytes(slot[:LENGTH].tobytes(), "little") for slot in slots]
        said = [slot[: min(length, SLOT)].tobytes() for slot, length in zip(slots, lengths, strict=True)]
        for start in range(SLOT, max(lengths), SLOT):
            slots = self._say(mine[start : start + SLOT])
            for rank, length in enumerate(lengths):
                said[rank] += slots[rank, : max(0, length - start)].tobytes()
        values = [json.loads(one[LENGTH:]) for one in said]
        return [tuple(value) if isinstance(value, list) else value for value in values]

    def bcast(self, value: Any, root: int = 0) -> Any:
        """The value of one of the processes."""
        return self.allgather(value if self.rank == root else None)[root]

    def Allreduce(self, mine: np.ndarray, total: np.ndarray) -> None:
        """total, an array like mine, becomes the sum over the processes: always in the same order, so the same bits."""
        given = mine.reshape(-1)
        out = total.reshape(-1)
        step = SLOT // mine.itemsize
        for start in range(0, given.size, step):
            part = slice(start, start + step)
            slots = self._say(given[part].view(np.uint8))
            parts = slots[:, : given[part].nbytes].view(mine.dtype)
            np.add.reduce(parts, axis=0, out=out[part])

    def Abort(self, status: int) -> None:
        """All processes end with this status as soon as they wait for another."""
        self._ended[0] = 1 + status

    def _say(self, message: bytes | np.ndarray) -> np.ndarray:
        """Gives a message of at most SLOT bytes; returns the slots (size,SLOT) of all, when all have given theirs."""
        slots = self._slots[self._round % 2]
        slots[self.rank, : len(message)] = np.frombuffer(message, np.uint8)
        _fence()
        self._round += 1
        self._counts[self.rank] = self._round
        began = time.monotonic()
        checked = began
        while self._counts.min() < self._round:
            now = time.monotonic()
            waited = now - began
            if self._ended[0]:
                raise SystemExit(int(self._ended[0]) - 1)
            if now - checked > CHECK:
                checked = now
                self._look_for_the_others()
            if waited < PATIENCE and hasattr(os, "sched_yield"):
                os.sched_yield()
            else:
                time.sleep(min(waited / 20, LONGEST))
        _fence()
        return slots

    def _look_for_the_others(self) -> None:
        """Raises InputError in the first process where another has ended; SystemExit in that where the first has."""
        for rank, other in enumerate(self.others, start=1):
            status = other.poll()
            if status is not None and self._counts[rank] < self._round:
                raise InputError(f"process {rank} of {self.size} has ended (status {status}) before its work was done")
        if self.rank and os.getppid() != self._parent:
            raise SystemExit(1)


_LOCK = threading.Lock()


def _fence() -> None:
    """Keeps what this thread reads and writes before it before what comes after it, for other processors too.

    ARM may exchange the two. What comes before a lock's release stays there, and so does what comes after taking it.
    """
    with _LOCK:
        pass
    with _LOCK:
        pass

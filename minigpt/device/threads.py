"""Threads: for the products of BLAS, and for what the fast operations share out. And memory that is kept."""

import ctypes
import functools
import os
import queue
import sys
import threading
from collections.abc import Callable

from minigpt.errors import InputError


def keep_freed_memory() -> None:
    """Let the C library keep freed memory for the next array. Elsewhere than on Linux with glibc nothing is done.

    Left alone, it returns large blocks to the system, and each page of the next array is cleared and mapped anew: a
    third of a small training step.
    """
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None) if sys.platform == "linux" else None
    if mallopt:
        mallopt(-3, 1 << 30)  # M_MMAP_THRESHOLD: blocks below this size come from the heap
        mallopt(-1, (1 << 31) - 1)  # M_TRIM_THRESHOLD: so much of it may lie idle


def set_threads(number: int) -> None:
    """Let matrix products, and what `share` shares out, use this many threads.

    Raises InputError for a number below 1.
    """
    global _threads
    if number < 1:
        raise InputError(f"--threads {number}: give 1 or more")
    _threads = number
    _limit_products(number)


def threads() -> int:
    """How many threads may work at the same time: what `set_threads` said, or what BLAS found."""
    global _threads
    if _threads is None:
        _threads = max((library.num_threads for library in _libraries()), default=os.cpu_count() or 1)
    return _threads


def share(body: Callable, *sizes: int, work: int) -> list:
    """[body(*slices), ...]: each thread takes its part of every range(size), all at the same time.

    NumPy lets go of Python's lock while it computes. work: about how many numbers are touched; where they are few, one
    call gets everything. Matrix products inside use one thread. body must not call share, nor touch what others write.
    """
    n = min(threads() if work >= SHARED else 1, *sizes)
    if n < 2:
        return [body(*(slice(0, size) for size in sizes))]
    parts = [[slice(size * k // n, size * (k + 1) // n) for size in sizes] for k in range(n)]
    results, done, tasks = [None] * n, queue.SimpleQueue(), _tasks(n - 1, os.getpid())

    def run(i):
        try:
            results[i], error = body(*parts[i]), None
        except BaseException as raised:  # of another thread: it is raised again in this one
            error = raised
        done.put(error)

    _limit_products(1)
    try:
        for i in range(1, n):
            tasks.put(functools.partial(run, i))
        run(0)
        errors = [error for error in (done.get() for _ in parts) if error]
    finally:
        _limit_products(threads())
    if errors:
        raise errors[0]
    return results


SHARED = 1 << 15  # with less work than this, waking another thread costs more than it saves
_threads: int | None = None


@functools.cache
def _tasks(workers: int, pid: int) -> queue.SimpleQueue:
    """What is put in is called by one of so many threads: a third of the delay of a ThreadPoolExecutor.

    pid: a forked process has none of its parent's threads, and needs its own.
    """
    tasks = queue.SimpleQueue()

    def work():
        while True:
            tasks.get()()

    for _ in range(workers):
        threading.Thread(target=work, daemon=True).start()
    return tasks


@functools.cache
def _libraries() -> list:
    from threadpoolctl import ThreadpoolController

    return ThreadpoolController().select(user_api="blas").lib_controllers


def _limit_products(number: int) -> None:
    for library in _libraries():
        library.set_num_threads(number)

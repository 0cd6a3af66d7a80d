"""Threads: for the products of BLAS, and for work that the fast operations divide. And memory that is kept."""

import ctypes
import functools
import os
import queue
import sys
import threading
import warnings
from collections.abc import Callable

from minigpt.errors import InputError


def keep_freed_memory() -> None:
    """Let the C library keep freed memory for the next array. Only on Linux with glibc; elsewhere nothing is done.

    By default it returns large blocks to the system, and each page of the next array is cleared and mapped again: that
    takes a third of the time of a small training step.
    """
    if sys.platform != "linux":
        return
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is None:
        return
    mallopt(-3, 1 << 30)  # M_MMAP_THRESHOLD: blocks below this size come from the heap
    mallopt(-1, (1 << 31) - 1)  # M_TRIM_THRESHOLD: so many unused bytes of it are kept


def set_threads(number: int) -> None:
    """Let matrix products, and work that `share` divides, use this many threads.

    Raises InputError for a number below 1. Warns where NumPy's library for products does not keep to it.
    """
    global _threads
    if number < 1:
        raise InputError(f"--threads {number}: give 1 or more")
    _threads = number
    _limit_products(number)
    for library in _libraries():
        if library.num_threads != number:
            what = f"{library.internal_api}, NumPy's library for matrix products, goes on with {library.num_threads}"
            warnings.warn(f"--threads {number}: {what}", stacklevel=2)


def threads() -> int:
    """How many threads may work at the same time: the number given to `set_threads`, or else that of BLAS."""
    global _threads
    if _threads is None:
        of_blas = [library.num_threads for library in _libraries()]
        _threads = max(of_blas, default=os.cpu_count() or 1)
    return _threads


def share(body: Callable, *sizes: int, work: int) -> list:
    """[body(*slices), ...]: each thread takes its part of every range(size), all at the same time.

    NumPy releases Python's lock while it computes. work: about how many elements are read or written; where they are
    few, one call gets everything. Matrix products inside use one thread. body must not call share, nor read or write
    what another thread writes. Raises what body raised, of the thread that failed first.
    """
    allowed = threads() if work >= SHARED else 1
    n = min(allowed, *sizes)
    if n < 2:
        return [body(*(slice(0, size) for size in sizes))]
    results = [None] * n
    done = queue.SimpleQueue()  # for each part its error, or None
    tasks = _tasks(n - 1, os.getpid())

    def run(k):
        error = None
        try:
            parts = [slice(size * k // n, size * (k + 1) // n) for size in sizes]
            results[k] = body(*parts)
        except BaseException as raised:  # raised again below, in the thread that called share
            error = raised
        done.put(error)

    _limit_products(1)
    try:
        for k in range(1, n):
            tasks.put(functools.partial(run, k))
        run(0)
        errors = [done.get() for _ in range(n)]
    finally:
        _limit_products(threads())
    for error in errors:
        if error is not None:
            raise error
    return results


SHARED = 1 << 15  # elements: for less work, waking another thread costs more than it saves
_threads: int | None = None


@functools.cache
def _tasks(workers: int, pid: int) -> queue.SimpleQueue:
    """A queue of functions, each of which is called by one of `workers` threads: faster than a ThreadPoolExecutor.

    pid: the process. A forked one has none of its parent's threads, and starts others.
    """
    tasks = queue.SimpleQueue()

    def work():
        while True:
            task = tasks.get()
            task()

    for _ in range(workers):
        threading.Thread(target=work, daemon=True).start()
    return tasks


@functools.cache
def _libraries() -> list:
    """The libraries of BLAS that are loaded, as threadpoolctl describes them."""
    from threadpoolctl import ThreadpoolController

    return ThreadpoolController().select(user_api="blas").lib_controllers


def _limit_products(number: int) -> None:
    """Let matrix products use this many threads."""
    for library in _libraries():
        library.set_num_threads(number)

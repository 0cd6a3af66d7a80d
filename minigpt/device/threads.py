"""Threads: for the products of BLAS, and for work that the fast operations divide. And memory that is kept."""

import contextlib
import ctypes
import functools
import os
import queue
import sys
import threading
import warnings
from collections.abc import Callable

from minigpt.errors import InputError

BLAS_WAITS = "OPENBLAS_THREAD_TIMEOUT"  # how long its threads wait for work: 2 to this power, in cycles
AT_ONCE, LONG = "4", "20"


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


def stay_awake() -> None:
    """Let BLAS's threads wait for the next product, up to a third of a millisecond, before they sleep.

    For a process that writes text token by token: to wake a thread takes as long as a quarter of a product of one row,
    and the next product comes soon. Where threads share other work they would be in its way, so elsewhere they sleep at
    once (`minigpt/__init__.py`). Nothing is done where NumPy is imported already, and where a user chose the time.
    """
    if "numpy" not in sys.modules and os.environ.get(BLAS_WAITS) == AT_ONCE:
        os.environ[BLAS_WAITS] = LONG


def set_threads(number: int) -> None:
    """Let matrix products, and work that `share` divides, use this many threads, whatever the work.

    Raises InputError for a number below 1. Warns where NumPy's library for products does not keep to it.
    """
    global _given
    if number < 1:
        raise InputError(f"--threads {number}: give 1 or more")
    _given = True
    _use(number)
    for library in _libraries():
        if library.num_threads != number:
            what = f"{library.internal_api}, NumPy's library for matrix products, goes on with {library.num_threads}"
            warnings.warn(f"--threads {number}: {what}", stacklevel=2)


def fit_threads(work: int) -> int:
    """Choose how many threads a model gets whose largest operation has so much work, in the unit of `share`.

    One where no operation has enough for two, and otherwise all of BLAS's. A number that was given to `set_threads`
    stays. Returns the number. The rule is a constant, so two runs of the same model have the same bits.
    """
    if not _given:
        _use(1 if work < SHARED else _at_first())
    return threads()


def about_threads() -> str:
    """How many threads work, in words, and why not more: "2 threads", "1 thread, as there is too little work for 2"."""
    number = threads()
    if number < _at_first() and not _given:
        return f"1 thread, as there is too little work for {_at_first()}"
    return f"{number} thread" if number == 1 else f"{number} threads"


def threads() -> int:
    """How many threads may work at the same time: what was chosen last, or else BLAS's own number."""
    return _threads or _at_first()


def share(body: Callable, *sizes: int, work: int) -> list:
    """[body(*slices), ...]: each thread takes its part of every range(size), all at the same time.

    NumPy releases Python's lock while it computes. work: about how many elements are read or written; where they are
    few, one call gets everything. Matrix products inside use one thread, unless a large body could not be divided.
    body must not call share, nor read or write what another thread writes. Raises what body raised, of the thread that
    failed first.
    """
    allowed = threads()
    n = min(allowed, *sizes) if work >= SHARED else 1
    alone = allowed > 1 and work >= TINY and (n > 1 or work < SHARED)
    if alone:
        _limit_products(1)
    try:
        if n < 2:
            return [body(*(slice(0, size) for size in sizes))]
        return _at_the_same_time(body, sizes, n)
    finally:
        if alone:
            _limit_products(allowed)


@contextlib.contextmanager
def products_of(work: int):
    """Inside, a matrix product is made by one thread if it has too little work for two, in the unit of `share`."""
    alone = threads() > 1 and work < SHARED
    if alone:
        _limit_products(1)
    try:
        yield
    finally:
        if alone:
            _limit_products(threads())


def _at_the_same_time(body: Callable, sizes: tuple[int, ...], n: int) -> list:
    """What body returns for each of n parts: this thread takes the first, and others the rest."""
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

    for k in range(1, n):
        tasks.put(functools.partial(run, k))
    run(0)
    errors = [done.get() for _ in range(n)]
    for error in errors:
        if error is not None:
            raise error
    return results


# Elements. With less work a second thread costs more than it saves: it sleeps, and to wake it takes up to 0.3 ms. So
# the fast operations never wake BLAS's own threads either, which BLAS would do for much less. Measured by
# benchmarks/threads.py: no model from 1 x 16 to GPT-2 small is slower with two threads than with one.
SHARED = 1 << 18
TINY = 1 << 11  # elements: for less work BLAS uses one thread by itself
_threads: int | None = None  # None until it is chosen
_given = False  # was it given to set_threads?


@functools.cache
def _at_first() -> int:
    """How many threads BLAS uses by itself."""
    return max([library.num_threads for library in _libraries()], default=os.cpu_count() or 1)


def _use(number: int) -> None:
    global _threads
    _at_first()  # is known before it changes
    _threads = number
    _limit_products(number)


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
    """The libraries of BLAS that NumPy has loaded, as threadpoolctl describes them."""
    import numpy  # noqa: F401 - loads its library, where nothing has imported NumPy yet
    from threadpoolctl import ThreadpoolController

    return ThreadpoolController().select(user_api="blas").lib_controllers


def _limit_products(number: int) -> None:
    """Let matrix products use this many threads."""
    for library in _libraries():
        library.set_num_threads(number)

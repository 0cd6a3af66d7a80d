"""Ctrl-C, or a system that ends the program: the work in progress ends whole, and what was done is kept."""

import contextlib
import os
import signal
import time
from collections.abc import Callable, Iterator

# what ends a program from outside: a user, `kill` or a machine that goes down, a terminal that is closed, Windows
SIGNALS = {"SIGINT": "Ctrl-C", "SIGTERM": "SIGTERM", "SIGHUP": "SIGHUP", "SIGBREAK": "Ctrl-Break"}
KEEP_SECONDS = 300.0  # the work is kept that often at least
SHARE = 0.05  # of the time that keeping may take


class Stopped(Exception):
    """A signal wants the work to end, and everything is kept; its argument is the number of the signal."""


def exit_status(stopped_by: int) -> int:
    """The exit status of what a signal has stopped, by its number; 0 where it is 0."""
    return 128 + stopped_by if stopped_by else 0


@contextlib.contextmanager
def interruptible(speaks: bool) -> Iterator[Callable[[], int]]:
    """Yields a function: the number of the signal that wants the program to end, or 0.

    Ctrl-C twice raises the usual KeyboardInterrupt. speaks: is this the process that tells the user so? A signal that
    was ignored before (nohup) stays ignored. Outside the main thread no signal is caught.
    """
    arrived = []
    terminals = [stream for stream in (1, 2) if _is_terminal(stream)]

    def note(number, frame):
        if number == signal.SIGINT and arrived:
            raise KeyboardInterrupt
        arrived.append(number)
        if speaks and len(arrived) == 1:
            _tell(number)
        if signal.Signals(number).name == "SIGHUP":
            _leave(terminals)

    before = _install(note)
    try:
        yield lambda: arrived[0] if arrived else 0
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _install(handler: Callable) -> dict:
    """Let this function handle the signals; returns what handled them before."""
    before = {}
    for name in SIGNALS:
        number = getattr(signal, name, None)
        if number is None or signal.getsignal(number) in (signal.SIG_IGN, None):
            continue
        try:
            before[number] = signal.signal(number, handler)
        except ValueError:  # not in the main thread: the program that started the thread decides
            return {}
    return before


def _tell(number: int) -> None:
    """Say what comes now. Not by print: a signal may come while something is printed."""
    name = SIGNALS[signal.Signals(number).name]
    again = " (press again to leave at once)" if number == signal.SIGINT else ""
    with contextlib.suppress(OSError):
        os.write(2, f"\n{name}: finishing this update, then saving{again}\n".encode())


def _is_terminal(stream: int) -> bool:
    try:
        return os.isatty(stream)
    except OSError:
        return False


def _leave(terminals: list[int]) -> None:
    """The terminal is closed: what is printed from now on goes nowhere, where it would have raised an error."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    for stream in terminals:
        os.dup2(nowhere, stream)
    os.close(nowhere)


class Timer:
    """Says when the work is to be kept again: every KEEP_SECONDS, less often where keeping itself takes long."""

    def __init__(self):
        self._kept(0.0)

    @property
    def due(self) -> bool:
        """Is it time?"""
        return time.monotonic() >= self._next

    @contextlib.contextmanager
    def keeping(self) -> Iterator[None]:
        """Inside, the work is kept; from then on the time runs anew."""
        start = time.monotonic()
        yield
        self._kept(time.monotonic() - start)

    def _kept(self, seconds: float) -> None:
        self._next = time.monotonic() + max(KEEP_SECONDS, seconds / SHARE)

"""Ctrl-C: the work in progress ends whole, and what was done is kept."""

import contextlib
import os
import signal
from collections.abc import Callable, Iterator


@contextlib.contextmanager
def interruptible(speaks: bool) -> Iterator[Callable[[], bool]]:
    """Yields a function: was Ctrl-C pressed? Pressed twice, it raises the usual KeyboardInterrupt.

    speaks: is this the process that tells the user so? Outside the main thread no signal is caught.
    """
    pressed = []

    def note(signal_number, frame):
        if pressed:
            raise KeyboardInterrupt
        pressed.append(signal_number)
        with contextlib.suppress(OSError):  # not by print: a signal may come while something is printed
            if speaks:
                os.write(2, b"\nCtrl-C: finishing this update, then saving (press again to leave at once)\n")

    try:
        before = signal.signal(signal.SIGINT, note)
    except ValueError:  # not in the main thread: the program that started the thread decides
        yield lambda: False
        return
    try:
        yield lambda: bool(pressed)
    finally:
        signal.signal(signal.SIGINT, before)

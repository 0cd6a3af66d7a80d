"""The three streams of a learner's process, read and written with a deadline.

PolledPipes waits in the thread that asks, which costs least; it needs POSIX. ThreadedPipes works everywhere: a thread
for each stream. Deadlines are times of `time.monotonic`; TimeoutError says that one was missed, EOFError that the
process has closed its stream, or printed too much.
"""

import contextlib
import os
import queue
import select
import threading
from time import monotonic

SHOWN_BYTES = 2_000  # of what a file prints
CHUNK = 65536


class Printed:
    """What a process prints: the beginning of all of it, and of what the last call printed, in bytes.

    limit: after as many bytes it is too much.
    """

    def __init__(self, limit: int):
        self.limit = limit
        self.all = b""
        self.last_call = b""
        self.size = 0

    def add(self, data: bytes) -> None:
        """The process has printed this."""
        self.size += len(data)
        self.all = _longer(self.all, data)
        self.last_call = _longer(self.last_call, data)

    @property
    def too_much(self) -> bool:
        """Is it more than the limit?"""
        return self.size > self.limit


def _longer(beginning, data):
    room = SHOWN_BYTES - len(beginning)
    return beginning + data[:room] if room > 0 else beginning


class PolledPipes:
    """The streams of a process, in one thread."""

    def __init__(self, process, printed: Printed):
        self._process = process
        self.printed = printed
        self._buffer = bytearray()
        self._errors_open = True
        self._stdin, self._stdout, self._stderr = (
            stream.fileno() for stream in (process.stdin, process.stdout, process.stderr)
        )
        for number in (self._stdin, self._stdout, self._stderr):
            os.set_blocking(number, False)

    def write(self, data: bytes, deadline: float) -> None:
        """Write all of it."""
        left = memoryview(data)
        while left:
            try:
                left = left[os.write(self._stdin, left) :]
            except BlockingIOError:
                self._wait(self._stdin, select.POLLOUT, deadline)
            except OSError:
                raise EOFError from None

    def read(self, n: int, deadline: float) -> bytes:
        """Exactly n bytes of the replies."""
        while len(self._buffer) < n:
            try:
                data = os.read(self._stdout, CHUNK)
            except BlockingIOError:
                self._wait(self._stdout, select.POLLIN, deadline)
                continue
            if not data:
                self.collect()
                raise EOFError
            self._buffer += data
        found = bytes(self._buffer[:n])
        del self._buffer[:n]
        return found

    def collect(self) -> None:
        """Take up what was printed until now."""
        while self._errors_open:
            try:
                data = os.read(self._stderr, CHUNK)
            except BlockingIOError:
                return
            self._errors_open = bool(data)
            self.printed.add(data)
            if self.printed.too_much:
                raise EOFError

    def _wait(self, number, event, deadline):
        waiting = select.poll()
        waiting.register(number, event)
        if self._errors_open:
            waiting.register(self._stderr, select.POLLIN)
        left = deadline - monotonic()
        ready = waiting.poll(left * 1000) if left > 0 else []
        if not ready:
            raise TimeoutError
        if any(which == self._stderr for which, _ in ready):
            self.collect()

    def close_requests(self) -> None:
        """Tell the process that no request comes any more."""
        with contextlib.suppress(OSError):
            self._process.stdin.close()

    def close(self) -> None:
        """Close all streams, after the process has ended."""
        with contextlib.suppress(EOFError):
            self.collect()
        _close(self._process)


class ThreadedPipes:
    """The streams of a process, with a thread for each."""

    def __init__(self, process, printed: Printed):
        self._process = process
        self.printed = printed
        self._buffer = bytearray()
        self._replies = queue.Queue(maxsize=64)  # chunks; the last one is empty
        self._requests = queue.SimpleQueue()
        works = (self._read_replies, self._read_printed, self._write_requests)
        self._threads = [threading.Thread(target=work, daemon=True) for work in works]
        for thread in self._threads:
            thread.start()

    def write(self, data: bytes, deadline: float) -> None:
        """Write all of it, some time: whether it came in time is seen by the reply."""
        self._requests.put(data)

    def read(self, n: int, deadline: float) -> bytes:
        """Exactly n bytes of the replies."""
        while len(self._buffer) < n:
            try:
                data = self._replies.get(timeout=max(0.0, deadline - monotonic()))
            except queue.Empty:
                raise TimeoutError from None
            if not data:
                raise EOFError
            self._buffer += data
        found = bytes(self._buffer[:n])
        del self._buffer[:n]
        return found

    def collect(self) -> None:
        """What was printed is taken up as it comes."""

    def close_requests(self) -> None:
        """Tell the process that no request comes any more."""
        self._requests.put(None)

    def close(self) -> None:
        """Close all streams, after the process has ended."""
        self._requests.put(None)
        with contextlib.suppress(queue.Empty):
            while True:
                self._replies.get_nowait()
        for thread in self._threads:
            thread.join(timeout=1)
        if not any(thread.is_alive() for thread in self._threads):
            _close(self._process)

    def _read_replies(self):
        with contextlib.suppress(OSError, ValueError):
            while data := self._process.stdout.read1(CHUNK):
                self._replies.put(data)
        self._replies.put(b"")

    def _read_printed(self):
        with contextlib.suppress(OSError, ValueError):
            while data := self._process.stderr.read1(CHUNK):
                self.printed.add(data)
                if self.printed.too_much:
                    self._process.kill()
                    return

    def _write_requests(self):
        with contextlib.suppress(OSError, ValueError):
            while (data := self._requests.get()) is not None:
                self._process.stdin.write(data)
                self._process.stdin.flush()
        with contextlib.suppress(OSError):
            self._process.stdin.close()


def _close(process):
    for stream in (process.stdin, process.stdout, process.stderr):
        with contextlib.suppress(OSError):
            stream.close()


Pipes = PolledPipes if os.name == "posix" else ThreadedPipes

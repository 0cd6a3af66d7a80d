"""The three streams of a learner's process, with a thread for each: Windows cannot wait for a pipe otherwise.

Deadlines are times of `time.monotonic`; TimeoutError says that one was missed, EOFError that the process has closed its
stream, or has ended.
"""

import contextlib
import queue
import threading
from time import monotonic

SHOWN_BYTES = 2_000  # of what a file prints
CHUNK = 65536


class Pipes:
    """The streams of a process.

    printed: the beginning of what it prints. most_printed: more bytes than this are too much; the process is killed.
    """

    def __init__(self, process, most_printed: int):
        self._process = process
        self.printed = b""
        self.printed_too_much = False
        self._left = most_printed
        self._buffer = bytearray()
        self._replies = queue.Queue(maxsize=64)  # chunks; the last one is empty
        self._requests = queue.Queue(maxsize=1)  # a process that asks and does not read fills no memory here
        works = (self._read_replies, self._read_printed, self._write_requests)
        self._threads = [threading.Thread(target=work, daemon=True) for work in works]
        for thread in self._threads:
            thread.start()

    def write(self, data: bytes, deadline: float) -> None:
        """Write all of it, some time; what was to be written before must be written until the deadline."""
        try:
            self._requests.put(data, timeout=max(0.0, deadline - monotonic()))
        except queue.Full:
            raise TimeoutError from None

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

    def close_requests(self) -> None:
        """Tell the process that no request comes any more."""
        with contextlib.suppress(queue.Full):
            self._requests.put_nowait(None)

    def close(self) -> None:
        """Take up what was printed, and close all streams, after the process has ended."""
        self.close_requests()
        with contextlib.suppress(queue.Empty):
            while True:
                self._replies.get_nowait()  # so that there is room for the last one
        for thread in self._threads:
            thread.join(timeout=1)
        if not any(thread.is_alive() for thread in self._threads):
            for stream in (self._process.stdin, self._process.stdout, self._process.stderr):
                with contextlib.suppress(OSError):
                    stream.close()

    def _read_replies(self):
        with contextlib.suppress(OSError, ValueError):
            while data := self._process.stdout.read1(CHUNK):
                self._replies.put(data)
        self._replies.put(b"")

    def _read_printed(self):
        with contextlib.suppress(OSError, ValueError):
            while data := self._process.stderr.read1(CHUNK):
                self.printed += data[: SHOWN_BYTES - len(self.printed)]
                self._left -= len(data)
                if self._left < 0:
                    self.printed_too_much = True
                    self._process.kill()
                    return

    def _write_requests(self):
        with contextlib.suppress(OSError, ValueError):
            while (data := self._requests.get()) is not None:
                self._process.stdin.write(data)
                self._process.stdin.flush()
        with contextlib.suppress(OSError):
            self._process.stdin.close()

"""The learner's process as the judge sees it: requests with a time limit, and an end to the whole process tree.

Cases, numbers and verdict stay on this side. Only arrays and short texts come from there, and both are looked at before
they are used: a process that ends, is late, writes what is no message or answers another request has failed.
"""

import contextlib
import os
import queue
import signal
import subprocess
import sys
import tempfile
import threading
from pathlib import Path
from time import monotonic
from typing import Any

from minigpt.errors import InputError
from minigpt.gradcheck.judge import RaisedElsewhere
from minigpt.learn import wire

START_SECONDS = 60.0  # for Python and NumPy to start
CALL_SECONDS = 10.0  # for one call, and for running the file itself
WHOLE_SECONDS = 300.0
SHOWN_BYTES = 2_000  # of what a file prints
MAX_PRINTED = 10_000_000  # after as many bytes the process is ended
POSIX = os.name == "posix"


class Child:
    """A process that runs a learner's file in an empty folder of its own.

        with Child(seconds=300) as child:
            reply = child.request("load", name=…, path=…, text=…)

    Every request raises RaisedElsewhere where the process does not answer as it must; `failure` keeps the reason, and
    no later request is sent. printed: the beginning of what the file printed.
    """

    def __init__(self, seconds: float = WHOLE_SECONDS, call_seconds: float = CALL_SECONDS):
        self.whole_seconds = seconds
        self.call_seconds = call_seconds
        self.failure = ""
        self.printed = b""
        self.dropped = []  # numbers of caches that are not needed any more
        self._n_printed = 0
        self._number = 0
        self._jobs = queue.SimpleQueue()
        self._replies = queue.SimpleQueue()

    def __enter__(self) -> "Child":
        """Start the process. Raises InputError where this cannot be done."""
        self._folder = tempfile.TemporaryDirectory(prefix="minigpt-check-", ignore_cleanup_errors=True)
        self._deadline = monotonic() + START_SECONDS
        self._process = subprocess.Popen(
            [sys.executable, "-B", "-m", "minigpt.learn.child"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            cwd=self._folder.name,
            env=_environment(),
            start_new_session=POSIX,
        )
        self._threads = [threading.Thread(target=work, daemon=True) for work in (self._talk, self._read_printed)]
        for thread in self._threads:
            thread.start()
        try:
            self._answer("ready", {}, START_SECONDS)
        except RaisedElsewhere as error:
            self.__exit__()
            raise InputError(f"a process for your file cannot be started: {error}") from error
        self._deadline = monotonic() + self.whole_seconds
        return self

    def __exit__(self, *_) -> None:
        self._kill()
        self._jobs.put(None)
        for thread in self._threads:
            thread.join(timeout=1)
        if not any(thread.is_alive() for thread in self._threads):
            for stream in (self._process.stdin, self._process.stdout, self._process.stderr):
                with contextlib.suppress(OSError):
                    stream.close()
        self._folder.cleanup()

    def request(self, what: str, **given: Any) -> dict:
        """The reply to a request. Raises RaisedElsewhere where there is none that can be used."""
        if self.failure:
            raise RaisedElsewhere(self.failure)
        return self._answer(what, given, self.call_seconds)

    def _answer(self, what, given, seconds):
        self._number += 1
        dropped, self.dropped = self.dropped, []
        self._jobs.put((self._number, what, given, dropped))
        left = self._deadline - monotonic()
        seconds = max(0, min(seconds, left))
        try:
            reply = self._replies.get(timeout=seconds)
        except queue.Empty:
            late = f"after {seconds:.3g} s" if seconds < left else f"when its {self.whole_seconds:.4g} s were over"
            return self._fail(f"There was no answer {late}: is there a loop without an end?")
        if isinstance(reply, str):
            return self._fail(reply)
        number, answer = _checked(reply)
        if number != self._number:
            return self._fail("The answer belongs to another call: does the file write to the judge's stream?")
        if answer.get("kind") == "raised":
            says = " ".join(str(answer.get("says")).split())[:500]
            raise NotImplementedError if answer.get("gap") is True else RaisedElsewhere(says)
        return answer

    def finish(self) -> None:
        """End the process when all is done; what it still has to say, such as a second answer, is a failure."""
        if self.failure:
            return
        self._jobs.put(None)
        with contextlib.suppress(queue.Empty):
            last = self._replies.get(timeout=min(self.call_seconds, 2))
            if last:
                self.failure = "It answered more than it was called for: does the file write to the judge's stream?"
        self._kill()

    def _fail(self, reason):
        self._kill()
        self.failure = reason
        raise RaisedElsewhere(reason)

    def _talk(self):
        """In a thread: send each job and read its reply; a text where there is none."""
        while (job := self._jobs.get()) is not None:
            try:
                wire.send(self._process.stdin, job)
                reply = wire.receive(self._process.stdout)
            except (EOFError, OSError):
                reply = self._how_it_ended()
            except Exception:  # whatever stands there, it is no message
                reply = "Its answer cannot be read: does the file write to the judge's stream?"
            self._replies.put(reply)
        with contextlib.suppress(OSError):
            self._process.stdin.close()
        self._replies.put(self._process.stdout.read(1))

    def _how_it_ended(self):
        if self._n_printed > MAX_PRINTED:
            return f"It printed more than {MAX_PRINTED // 1_000_000} MB."
        try:
            status = self._process.wait(timeout=2)
        except subprocess.TimeoutExpired:
            return "It closed the judge's stream."
        return f"Its process ended with status {status} in the middle of a call: is there an exit in it?"

    def _read_printed(self):
        """In a thread: keep the beginning of what is printed, and end a process that prints without end."""
        while part := self._process.stderr.read1(65536):
            self._n_printed += len(part)
            self.printed = (self.printed + part)[:SHOWN_BYTES]
            if self._n_printed > MAX_PRINTED:
                self._kill()
                return

    def _kill(self):
        """End the process and, on POSIX, every process that it started and that stayed in its session's group."""
        with contextlib.suppress(OSError):
            if POSIX:
                os.killpg(self._process.pid, signal.SIGKILL)
            else:
                self._process.kill()
        self._process.wait()


def _checked(reply):
    """A reply as (number, answer), whatever it is."""
    if isinstance(reply, tuple) and len(reply) == 2 and isinstance(reply[1], dict):
        return reply
    return None, {}


def _environment():
    """The environment of the process: this package can be found, and one thread multiplies small matrices."""
    root = str(Path(__file__).parents[2])
    paths = [root, os.environ.get("PYTHONPATH", "")]
    path = os.pathsep.join(filter(None, paths))
    return os.environ | {"PYTHONPATH": path, "PYTHONIOENCODING": "utf-8", "OPENBLAS_NUM_THREADS": "1"}

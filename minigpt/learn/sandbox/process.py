"""The learner's process as the judge sees it: requests with a time limit, and an end to the whole process tree.

Cases, numbers and verdict stay on this side. Only values and short texts come from there, and both are looked at before
they are used: a process that ends, is late, writes what is no message or answers another request has failed.
"""

import contextlib
import os
import signal
import subprocess
import tempfile
from pathlib import Path
from time import monotonic, sleep
from typing import Any

from minigpt.device.windows import Job
from minigpt.errors import InputError
from minigpt.gradcheck.judge import RaisedElsewhere
from minigpt.learn.sandbox import limits, wire
from minigpt.learn.sandbox.lending import Lender
from minigpt.learn.sandbox.pipes import Pipes
from minigpt.ops.random_keys import Key

CALL_SECONDS = 10.0  # for one call, and for running the file itself
WHOLE_SECONDS = 300.0
MAX_PRINTED = 10_000_000  # after as many bytes the process is ended
STRAY_SECONDS = 5.0  # for processes that it started to end, after they were killed
POSIX = os.name == "posix"
FORGED = "does the file write to the judge's stream?"


class NotStarted(InputError):
    """The process could not be started: that is no fault of the file."""


class Child:
    """A process that runs a learner's file in an empty folder of its own.

        with Child(seconds=300) as child:
            reply = child.request("load", name=…, path=…, text=…)

    Every request raises RaisedElsewhere where the process does not answer as it must; `failure` keeps the reason, and
    no later request is sent. seconds: for everything; call_seconds: for one request. sandbox: "auto", "bubblewrap" or
    "plain", as in `limits.start`; says: which it is, and what is not protected. lender: decides which operations the
    file may borrow; at first none.
    """

    def __init__(self, seconds: float = WHOLE_SECONDS, call_seconds: float = CALL_SECONDS, sandbox: str = "auto"):
        self.whole_seconds = seconds
        self.call_seconds = call_seconds
        self.sandbox = sandbox
        self.says = ""
        self.failure = ""
        self.dropped: list[int] = []  # numbers of caches that are not needed any more
        self.lender = Lender()
        self._wire = wire.Wire(Key, self.lender.as_borrowed)
        self._number = 0
        self._job = None
        self._killed = False

    _pipes: Any

    def __enter__(self) -> "Child":
        """Start the process. Raises InputError where this cannot be done."""
        self._folder = tempfile.TemporaryDirectory(prefix="minigpt-check-", ignore_cleanup_errors=True)
        try:
            self._start(Path(self._folder.name).resolve())
        except InputError:
            self._folder.cleanup()
            raise
        try:
            self._answer("ready", {}, limits.START_SECONDS)
        except RaisedElsewhere as error:
            self.__exit__()
            told = self.printed.strip().splitlines()
            why = f" ({told[-1][:200]})" if told else ""
            raise NotStarted(f"a process for your file cannot be started: {error}{why}") from error
        self._pipes.printed = b""  # by Python itself
        self._deadline = monotonic() + self.whole_seconds
        return self

    def _start(self, folder):
        start = limits.start(self.sandbox, folder, self.whole_seconds)
        self.says = start.says
        self._tier = start.tier
        self._mark = os.fsencode(folder)
        self._deadline = monotonic() + limits.START_SECONDS
        pipe = subprocess.PIPE
        try:
            self._process = subprocess.Popen(
                start.command, stdin=pipe, stdout=pipe, stderr=pipe,
                cwd=folder, env=start.environment, start_new_session=POSIX,
            )  # fmt: skip
        except OSError as error:
            raise NotStarted(f"a process for your file cannot be started: {error}") from error
        if not POSIX:
            self._job = _job(self._process)
            self.says = self.says if self._job else self.says.replace("a job object", "no job object")
        self._pipes = Pipes(self._process, MAX_PRINTED)

    def __exit__(self, *_) -> None:
        self._kill()
        self._folder.cleanup()

    def request(self, what: str, **given: Any) -> dict:
        """The reply to a request. Raises RaisedElsewhere where there is none that can be used.

        NotImplementedError: a line that the file leaves open was run.
        """
        if self.failure:
            raise RaisedElsewhere(self.failure)
        return self._answer(what, given, self.call_seconds)

    def _answer(self, what, given, seconds):
        self._number += 1
        dropped, self.dropped = tuple(self.dropped), []
        try:
            data = self._wire.pack((self._number, what, given, dropped))
        except (TypeError, ValueError) as error:
            raise RaisedElsewhere(f"It is given {one_line(error)}") from error
        started = monotonic()
        deadline = min(started + seconds, self._deadline)
        try:
            self._pipes.write(data, deadline)
            answer = self._reply(deadline)
        except TimeoutError:
            whole = f"when its {self.whole_seconds:.4g} s were over"
            late = f"after {seconds:.3g} s" if started + seconds < self._deadline else whole
            return self._fail(f"There was no answer {late}: is there a loop without an end?")
        except EOFError:
            return self._fail(self._how_it_ended())
        except ValueError:  # whatever stands there, it is no message
            return self._fail(f"Its answer cannot be read: {FORGED}")
        if answer is None:
            return self._fail(f"The answer belongs to another call: {FORGED}")
        if str(answer.get("kind")) == "raised":
            raise NotImplementedError if answer.get("gap") is True else RaisedElsewhere(one_line(answer.get("says")))
        return answer

    def _reply(self, deadline):
        """The reply to the request, after all that the process borrows before; None where it is no reply to it."""
        while True:
            if monotonic() > deadline:  # it may borrow without an end
                raise TimeoutError
            message = self._receive(deadline)
            if not isinstance(message, tuple) or not message:
                return None
            if message[0] == "borrow" and len(message) == 4:
                self._pipes.write(self._lent(*message[1:]), deadline)
                continue
            if len(message) != 3 or message[:2] != ("reply", self._number) or not isinstance(message[2], dict):
                return None
            return message[2]

    def _lent(self, *call):
        """The message that answers the call of a borrowed operation."""
        try:
            return self._wire.pack(self.lender.answer(*call))
        except (TypeError, ValueError) as error:
            return self._wire.pack(("refused", ("ValueError", f"the result is {error}")))

    def _receive(self, deadline):
        n_text, n_numbers = wire.lengths(self._pipes.read(wire.LENGTHS.size, deadline))
        text = self._pipes.read(n_text, deadline)
        return self._wire.unpack(text, self._pipes.read(n_numbers, deadline))

    @property
    def printed(self) -> str:
        """The beginning of what the file has printed; all of it is there when the process has ended."""
        return self._pipes.printed.decode("utf-8", "replace")

    def finish(self) -> None:
        """End the process when all is done; what it still has to say, such as a second answer, is a failure."""
        if self.failure:
            return
        self._pipes.close_requests()
        with contextlib.suppress(EOFError, TimeoutError):
            self._pipes.read(1, monotonic() + min(self.call_seconds, 2))
            self.failure = f"It answered more than it was called for: {FORGED}"
        self._kill()
        if self._pipes.printed_too_much and not self.failure:
            self.failure = self._how_it_ended()

    def _fail(self, reason):
        self._kill()
        self.failure = reason
        raise RaisedElsewhere(reason)

    def _how_it_ended(self):
        if self._pipes.printed_too_much:
            return f"It printed more than {MAX_PRINTED // 1_000_000} MB."
        status = self._status()
        if status is None:
            return "It closed the judge's stream."
        number = -status if status < 0 else status - 128 if self._tier == "bubblewrap" else 0
        name = f" ({signal.Signals(number).name})" if number in set(signal.Signals) else ""
        return f"Its process ended with status {status}{name} in the middle of a call: is there an exit in it?"

    def _status(self):
        """With what status the process has ended; None where it has not, after some time.

        On POSIX it is not taken off the system's list: its number stays its own until all of its group are ended.
        """
        deadline = monotonic() + 2
        while monotonic() < deadline:
            if not hasattr(os, "waitid"):  # Windows, and older Pythons on macOS
                status = self._process.poll()
            else:
                ended = os.waitid(os.P_PID, self._process.pid, os.WEXITED | os.WNOWAIT | os.WNOHANG)
                killed = ended is not None and ended.si_code != os.CLD_EXITED
                status = None if ended is None else -ended.si_status if killed else ended.si_status
            if status is not None:
                return status
            sleep(0.005)
        return None

    def _kill(self):
        """End the process and all that it started: its group, its job, and what bears its mark; then its streams."""
        if self._killed:
            return
        self._killed = True
        if POSIX:
            with contextlib.suppress(OSError):
                os.killpg(self._process.pid, signal.SIGKILL)
        elif self._job:
            self._job.close()
        with contextlib.suppress(OSError):
            self._process.kill()
        self._process.wait()
        deadline = monotonic() + STRAY_SECONDS
        while (strays := marked(self._mark)) and monotonic() < deadline:  # a process that was killed needs time to end
            for pid in strays:
                with contextlib.suppress(OSError):
                    os.kill(pid, signal.SIGKILL)
            sleep(0.01)
        self._pipes.close()


def one_line(text: Any, longest: int = 500) -> str:
    """A text that came from the process, on one line, not longer than this, and of characters that can be printed."""
    return printable(" ".join(str(text).split())[:longest])


def printable(text: str) -> str:
    """The text with a question mark for each character that is not printed, such as one that moves the cursor."""
    return "".join(character if character.isprintable() else "?" for character in text)


def marked(mark: bytes) -> list[int]:
    """The processes with this mark in command line or environment, where the system lists them in /proc."""
    found = []
    for path in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            if mark in (path / "cmdline").read_bytes() or mark in (path / "environ").read_bytes():
                found.append(int(path.name))
    return found


def _job(process):
    """The process in a job object; None where Windows does not give one."""
    try:
        return Job(process, limits.MEMORY)
    except OSError:
        return None

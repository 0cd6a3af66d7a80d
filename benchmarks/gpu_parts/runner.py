"""Parts in processes of their own: each has its limit, and one that fails leaves the others a working device.

After an error in a kernel a process can use its GPU no more. So every part begins anew.
"""

import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import NamedTuple

import machine

from gpu_parts.plan import Part

SCRIPT = machine.ROOT / "benchmarks" / "gpu.py"
INTERRUPTED = "interrupted"
RUNNING = "running"  # and where that is what is kept: everything was killed meanwhile
ANSWERS = 120  # seconds in which a GPU is found, also by a machine that has just been started
SKIPPED = 3  # the exit status of a part that cannot be played here
GRACE = 5  # seconds between the signal to end and the signal to kill
WIDTH = 220  # of a line that is shown; the log has all of it
ABOUT = """
from minigpt.device import gpu
problem = gpu.cuda_problem()
print(problem or gpu.device_name("cuda"))
raise SystemExit(bool(problem))
"""


class Ended(NamedTuple):
    """How a part ended ("done", "failed", "skipped", "out of time", "interrupted"), and the rows it has measured.

    "running" while it has not ended.
    """

    outcome: str
    seconds: float
    rows: dict[str, dict]


def device_name(device: str) -> str:
    """The name of the GPU, from another process: this one never uses it. Exits with the cause where there is none."""
    if device == "cpu":
        return "CPU"
    command = [sys.executable, "-c", ABOUT]
    try:
        done = subprocess.run(command, cwd=machine.ROOT, capture_output=True, text=True, timeout=ANSWERS)
    except subprocess.TimeoutExpired:
        sys.exit(f"no GPU can be used: no answer in {ANSWERS} s\n{_what_is_here()}")
    said = (done.stdout or done.stderr).strip().splitlines()[-1:]
    if done.returncode:
        sys.exit(f"no GPU can be used: {' '.join(said)}\n{_what_is_here()}")
    return said[0]


def _what_is_here() -> str:
    """The packages, and what the driver says: with them the cause can be found when the machine is gone."""
    try:
        done = subprocess.run(["nvidia-smi"], capture_output=True, text=True, timeout=ANSWERS)
        driver = done.stdout + done.stderr
    except (OSError, subprocess.TimeoutExpired) as error:
        driver = f"nvidia-smi: {error}"
    return f"{machine.versions()}\n{driver}"


class Log:
    """Lines that are shown when they come, and kept in a file. Where there is such a file, they are added to it."""

    def __init__(self, path: Path):
        path.parent.mkdir(parents=True, exist_ok=True)
        self.path, self.file = path, path.open("a", encoding="utf-8")

    def say(self, text: str) -> None:
        """Show and keep one or several lines."""
        for line in text.splitlines():
            print(line[:WIDTH], flush=True)
            self.file.write(line + "\n")
        self.file.flush()  # who is killed leaves what was said so far


class Runner:
    """Runs parts. options: of the command line, for each part. log: for what the parts print."""

    def __init__(self, options: list[str], log: Log):
        self.options, self.log = options, log
        self.process: subprocess.Popen | None = None

    def run(self, part: Part, limit: float, keep: Callable[[Ended], None] = lambda so_far: None) -> Ended:
        """Run a part for at most so many seconds, and show each line when the part prints it.

        keep: is told the rows so far whenever there are more, so that they are kept even where all of this is killed.
        """
        began = time.monotonic()
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "rows.json"
            seen: dict[str, dict] = {}

            def so_far(outcome: str) -> Ended:
                rows = json.loads(path.read_text(encoding="utf-8")) if path.is_file() else {}
                return Ended(outcome, time.monotonic() - began, rows)

            def show(line: str) -> None:
                nonlocal seen
                self.log.say(line)
                now = so_far(RUNNING)
                if now.rows != seen:
                    seen = now.rows
                    keep(now)

            outcome = self._outcome([*self.options, "--work", part.runs, "--rows", str(path)], limit, show)
            return so_far(outcome)

    def _outcome(self, options: list[str], limit: float, show: Callable[[str], None]) -> str:
        path = os.pathsep.join(filter(None, (str(machine.ROOT), os.environ.get("PYTHONPATH"))))
        environment = os.environ | {"PYTHONUNBUFFERED": "1", "PYTHONPATH": path}  # what it starts finds the package too
        own_group = {"process_group": 0} if hasattr(os, "killpg") else {}  # so its children end with it
        self.process = subprocess.Popen(
            [sys.executable, str(SCRIPT), *options], cwd=machine.ROOT, env=environment, text=True, errors="replace",
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, **own_group,
        )  # fmt: skip
        shown = threading.Thread(target=_show, args=[self.process.stdout, show], daemon=True)
        shown.start()
        try:
            status = self.process.wait(limit)
        except subprocess.TimeoutExpired:
            return "out of time"
        except KeyboardInterrupt:  # its rows are kept first
            return INTERRUPTED
        finally:
            self.end()
            shown.join(GRACE)
        return {0: "done", SKIPPED: "skipped"}.get(status, "failed")

    def end(self) -> None:
        """End the part that is running, if there is one, and all that it has started."""
        if self.process is None:
            return
        for number in (signal.SIGTERM, getattr(signal, "SIGKILL", signal.SIGTERM)):
            try:
                os.killpg(self.process.pid, number) if hasattr(os, "killpg") else self.process.terminate()
            except ProcessLookupError:  # all have ended
                break
            try:
                self.process.wait(GRACE)
            except subprocess.TimeoutExpired:
                continue
        self.process.wait()
        _wait_for_group(self.process.pid)
        self.process = None


def _show(output: Iterable[str], show: Callable[[str], None]) -> None:
    """Every line, until nothing can come any more."""
    for line in output:
        show(line.rstrip("\n") or " ")


def _wait_for_group(number: int) -> None:
    """Wait until no process of a group is left: one that was killed still holds its GPU memory for a moment.

    Not for longer than GRACE: a process whose parent does not collect it stays in its group, though it has ended.
    """
    latest = time.monotonic() + GRACE
    while hasattr(os, "killpg") and time.monotonic() < latest:
        try:
            os.killpg(number, 0)
        except ProcessLookupError:
            return
        time.sleep(0.02)

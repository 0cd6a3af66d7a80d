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
from pathlib import Path
from typing import NamedTuple

import machine

from gpu_parts.plan import Part

SCRIPT = machine.ROOT / "benchmarks" / "gpu.py"
INTERRUPTED = "interrupted"
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
    """How a part ended ("done", "failed", "skipped", "out of time", "interrupted"), and the rows it has measured."""

    outcome: str
    seconds: float
    rows: dict[str, dict]


def device_name(device: str) -> str:
    """The name of the GPU, from another process: this one never uses it. Exits with the cause where there is none."""
    if device == "cpu":
        return "CPU"
    done = subprocess.run([sys.executable, "-c", ABOUT], cwd=machine.ROOT, capture_output=True, text=True)
    said = (done.stdout or done.stderr).strip().splitlines()[-1:]
    if done.returncode:
        sys.exit(f"no GPU can be used: {' '.join(said)}")
    return said[0]


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

    def run(self, part: Part, limit: float) -> Ended:
        """Run a part for at most so many seconds, and show each line when the part prints it."""
        began = time.monotonic()
        with tempfile.TemporaryDirectory() as folder:
            rows = Path(folder) / "rows.json"
            outcome = self._outcome([*self.options, "--work", part.runs, "--rows", str(rows)], limit)
            found = json.loads(rows.read_text(encoding="utf-8")) if rows.is_file() else {}
        return Ended(outcome, time.monotonic() - began, found)

    def _outcome(self, options: list[str], limit: float) -> str:
        path = os.pathsep.join(filter(None, (str(machine.ROOT), os.environ.get("PYTHONPATH"))))
        environment = os.environ | {"PYTHONUNBUFFERED": "1", "PYTHONPATH": path}  # what it starts finds the package too
        own_group = {"start_new_session": True} if hasattr(os, "killpg") else {}  # so its children end with it
        self.process = subprocess.Popen(
            [sys.executable, str(SCRIPT), *options], cwd=machine.ROOT, env=environment, text=True, errors="replace",
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, **own_group,
        )  # fmt: skip
        shown = threading.Thread(target=self._show, args=[self.process.stdout], daemon=True)
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

    def _show(self, output) -> None:
        """Every line, until nothing can come any more."""
        for line in output:
            self.log.say(line.rstrip("\n") or " ")

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

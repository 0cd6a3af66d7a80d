"""A plugin of pytest: a failure is printed when it comes, and how many tests have passed so far.

So a run that is ended at its limit has said what it found. And a process whose GPU a test has broken ends: after an
error in a kernel every later test would fail in it. pytest-xdist says so, and another process goes on.
"""

import collections
import os
import sys

import pytest

EVERY = 20  # tests


def pytest_configure(config) -> None:
    """The first process is told of all tests; those that share the tests look after their GPU."""
    shares = hasattr(config, "workerinput")
    config.pluginmanager.register(Worker() if shares else AtOnce(config))


class Worker:
    """Ends its process where the GPU can be used no more."""

    @pytest.hookimpl(trylast=True)
    def pytest_runtest_logreport(self, report) -> None:
        """Last: the failure has been sent to the first process."""
        found = has_gpu()  # from the first report on, while it answers: CuPy remembers
        if report.failed and found and is_broken():
            os._exit(1)


def has_gpu() -> bool:
    """Has this process imported CuPy, and is there a GPU? Not gpu.cupy, which a test may have replaced."""
    cupy = sys.modules.get("cupy")
    return cupy is not None and cupy.is_available()


def is_broken() -> bool:
    """Does the GPU do nothing any more in this process?"""
    runtime = sys.modules["cupy"].cuda.runtime
    try:
        runtime.deviceSynchronize()
    except runtime.CUDARuntimeError:
        return True
    return False


class AtOnce:
    """Prints on pytest's own terminal, which is never captured."""

    def __init__(self, config):
        self.config = config
        self.counts = collections.Counter(passed=0, failed=0, skipped=0)

    def say(self, text: str) -> None:
        """On a line of its own."""
        terminal = self.config.pluginmanager.get_plugin("terminalreporter")
        terminal.write(f"\n{text}\n", flush=True)

    def pytest_collectreport(self, report) -> None:
        """A file that cannot be imported."""
        if report.failed:
            self.counts["failed"] += 1
            self.say(f"FAILED {report.nodeid}\n{report.longreprtext}")

    def pytest_runtest_logreport(self, report) -> None:
        """A test, or what stands before or after it."""
        if report.failed:
            self.say(f"FAILED {report.nodeid}, {report.when}\n{report.longreprtext}")
        if report.when == "call" or not report.passed:
            self.counts[report.outcome] += 1
            if self.counts.total() % EVERY == 0:
                self.so_far()

    def pytest_sessionfinish(self) -> None:
        """The numbers of the whole run."""
        self.so_far()

    def so_far(self) -> None:
        """A line that checks.py reads."""
        self.say("so far: " + ", ".join(f"{number} {outcome}" for outcome, number in self.counts.items()))

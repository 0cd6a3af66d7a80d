"""A plugin of pytest: a failure is printed when it comes, and how many tests have passed so far.

So a run that is ended at its limit has said what it found.
"""

import collections

EVERY = 20  # tests


def pytest_configure(config) -> None:
    """Not in the processes that share the tests: the first one is told of all."""
    if not hasattr(config, "workerinput"):
        config.pluginmanager.register(AtOnce(config))


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

"""What a command is, and how its job is found and run.

The job is named by a text, "minigpt.jobs.sample:SampleOptions", and imported when its command is typed: that takes
long, and `minigpt --help` must not wait for it.
"""

import importlib
from argparse import Namespace
from collections.abc import Callable
from typing import Any, NamedTuple

from minigpt.cli.arguments import given, read


class Command(NamedTuple):
    """A command: what follows `minigpt`, or a group's name, on the command line.

    examples: command lines that its help shows, without the word `minigpt`. takes: where the dataclass of its options
    is. does: where the function is that takes these options (a number that it returns is the exit status, and False is
    1); or a function here, which takes what argparse has found and returns the exit status. shared: may several
    processes do it together? writes: does it write text with a model?
    """

    name: str
    summary: str
    examples: tuple[str, ...]
    takes: str
    does: str | Callable[[Namespace], int | None]
    shared: bool = False
    writes: bool = False

    def options(self) -> type:
        """The dataclass of its options."""
        return _found(self.takes)

    def run(self, found: Namespace) -> int | None:
        """Run the job with what argparse has found; returns the exit status (None is 0)."""
        if callable(self.does):
            return self.does(found)
        return _status(_found(self.does)(read(self.options(), found)))


class Group(NamedTuple):
    """Commands with one word before their names: `minigpt tokenizer train`."""

    name: str
    summary: str
    actions: tuple[Command, ...]


def _found(place: str) -> Any:
    module, _, name = place.partition(":")
    return getattr(importlib.import_module(module), name)


def _status(outcome: Any) -> int:
    """The exit status: a number is the status itself, and 1 stands for a check that is not happy."""
    if isinstance(outcome, bool):
        return 0 if outcome else 1
    return outcome if isinstance(outcome, int) else 0


# --- jobs that need more than their options, or are two ---------------------------------------------------------------


def train(found: Namespace) -> int:
    """`minigpt train`, in as many processes as were started; 128 and the number of the signal that stopped it."""
    from minigpt.device.parallel import started
    from minigpt.jobs.interrupt import exit_status
    from minigpt.jobs.pretrain import PretrainOptions, train

    values = given(PretrainOptions, found)
    named = [*values, *_threads_given(found)]
    with started(found.threads, found.processes, found.words) as ranks:
        job = train(PretrainOptions(**values), ranks, named=named)
    return exit_status(0 if job.finished else job.stopped_by)


def finetune(found: Namespace) -> int:
    """`minigpt finetune`, of a task or of a suite; 128 and the number of the signal that stopped it."""
    from minigpt.jobs.finetune import FinetuneOptions, finetune
    from minigpt.jobs.interrupt import exit_status
    from minigpt.jobs.suites.running import finetune_suite

    values = given(FinetuneOptions, found)
    options = FinetuneOptions(**values)
    named = [*values, *_threads_given(found)]
    if options.suite is not None:
        return exit_status(finetune_suite(options, named))
    return exit_status(finetune(options, named).stopped_by)


def instruct(found: Namespace) -> int:
    """`minigpt instruct`; 128 and the number of the signal that stopped it."""
    from minigpt.jobs.instruct import InstructOptions, instruct
    from minigpt.jobs.interrupt import exit_status

    return exit_status(instruct(read(InstructOptions, found), named=_threads_given(found)))


def evaluate(found: Namespace) -> None:
    """`minigpt eval`: one task, or the columns of a suite."""
    from minigpt.jobs.evaluate import EvaluateOptions, evaluate
    from minigpt.jobs.suites.running import evaluate_suite

    options = read(EvaluateOptions, found)
    does = evaluate if options.suite is None else evaluate_suite
    does(options)


def check(found: Namespace) -> int:
    """`minigpt check`, of the library or of a file: 1 where a gradient is not right."""
    from minigpt.jobs.check import CheckOptions, run
    from minigpt.learn.judging import check_file

    options = read(CheckOptions, found)
    if options.file is None:
        return _status(run(options.seed))
    limits = {"all_cases": options.all_cases, "time_limit": options.time_limit}
    return _status(check_file.run(options.file, options.seed, **limits))


def _threads_given(found: Namespace) -> list[str]:
    """ ["threads"] where the command says how many; a run that goes on has then these, and not those that it had."""
    return [] if found.threads is None else ["threads"]

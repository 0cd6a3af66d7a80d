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
    is. does: where the function is that takes these options; or a function here, which takes what argparse has found
    and returns the exit status. shared: may several processes do it together? writes: does it write text with a model?
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
        _found(self.does)(read(self.options(), found))
        return None


class Group(NamedTuple):
    """Commands with one word before their names: `minigpt tokenizer train`."""

    name: str
    summary: str
    actions: tuple[Command, ...]


def _found(place: str) -> Any:
    module, _, name = place.partition(":")
    return getattr(importlib.import_module(module), name)


# --- jobs whose outcome is an exit status ----------------------------------------------------------------------------


def train(found: Namespace) -> int:
    """`minigpt train`, in as many processes as were started; 128 and the number of the signal that stopped it."""
    from minigpt.device.parallel import started
    from minigpt.jobs.interrupt import STATUS
    from minigpt.jobs.pretrain import PretrainOptions, train

    values = given(PretrainOptions, found)
    named = [*values, *_threads_given(found)]
    with started(found.threads, found.processes, found.words) as ranks:
        job = train(PretrainOptions(**values), ranks, named=named)
    return 0 if job.finished else STATUS + job.stopped_by


def finetune(found: Namespace) -> int:
    """`minigpt finetune`; 128 and the number of the signal that stopped it."""
    from minigpt.jobs.finetune import FinetuneOptions, finetune, reopen
    from minigpt.jobs.interrupt import STATUS
    from minigpt.jobs.suites.tuning import finetune_suite

    values = given(FinetuneOptions, found)
    named = _threads_given(found)
    if "suite" in values:
        stopped_by = finetune_suite(FinetuneOptions(**values), named)
    else:
        options = reopen(values) if "resume" in values else FinetuneOptions(**values)
        stopped_by = finetune(options, named=named).stopped_by
    return STATUS + stopped_by if stopped_by else 0


def evaluate(found: Namespace) -> None:
    """`minigpt eval`: one task, or the columns of a suite."""
    from minigpt.jobs.evaluate import EvaluateOptions, evaluate
    from minigpt.jobs.suites.evaluation import evaluate_suite

    options = read(EvaluateOptions, found)
    if options.suite is None:
        evaluate(options)
    else:
        evaluate_suite(options)


def instruct(found: Namespace) -> int:
    """`minigpt instruct`; 128 and the number of the signal that stopped it."""
    from minigpt.jobs.instruct import InstructOptions, instruct
    from minigpt.jobs.interrupt import STATUS

    stopped_by = instruct(read(InstructOptions, found), named=_threads_given(found))
    return STATUS + stopped_by if stopped_by else 0


def _threads_given(found: Namespace) -> list[str]:
    """ ["threads"] where the command says how many; a run that goes on has then these, and not those that it had."""
    return [] if found.threads is None else ["threads"]


def check(found: Namespace) -> int:
    """`minigpt check`: 1 where a gradient is not right."""
    from minigpt.jobs.check import CheckOptions, run
    from minigpt.learn.judging import check_file

    options = read(CheckOptions, found)
    if options.file is None:
        return _status(run(options.seed))
    limits = {"all_cases": options.all_cases, "time_limit": options.time_limit}
    return _status(check_file.run(options.file, options.seed, **limits))


def chat(found: Namespace) -> int:
    """`minigpt chat`; 128 and the number of the signal that stopped it."""
    from minigpt.jobs.chat import ChatOptions, chat

    return chat(read(ChatOptions, found))


def lesson(found: Namespace) -> int:
    """`minigpt lesson`: 1 where a cell fails."""
    from minigpt.learn.lesson import LessonOptions, step_through

    return step_through(read(LessonOptions, found))


def learn_check(found: Namespace) -> int:
    """`minigpt learn check`: 1 where an exercise is not right yet."""
    from minigpt.learn.classroom.commands import CheckOptions, check

    return _status(check(read(CheckOptions, found)))


def learn_claim(found: Namespace) -> int:
    """`minigpt learn claim`: 1 where the claim is not shown."""
    from minigpt.learn.classroom.claim import ClaimOptions, claim

    return _status(claim(read(ClaimOptions, found)))


def learn_bug(found: Namespace) -> int:
    """`minigpt learn bug`: 1 where an answer is not right."""
    from minigpt.learn.classroom.bug import BugOptions, bug

    return _status(bug(read(BugOptions, found)))


def _status(happy: bool) -> int:
    return 0 if happy else 1

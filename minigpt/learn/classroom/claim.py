"""`minigpt learn claim FILE`: a change to a small model, and whether it is an improvement or noise.

The file may have pairs of operations (`gelu_forward`, `gelu_backward`), an optimiser and a schedule:

    def update(parameters, gradients, state, lr, step): ...   # -> (parameters, state); lists of arrays
    def schedule(step, steps): ...                            # the factor of the learning rate at update `step`

state is None at the first update. The same small GPT-2 is trained with and without the change, on the same batches and
from the same weights, for several seeds. The claim holds where the mean difference of the held-out losses is more than
chance would give: where the 95 % interval of the paired differences (Student's t) lies below 0.
"""

import math
import secrets
import types
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from statistics import mean, stdev
from typing import Any, NamedTuple

import numpy as np
from tqdm import tqdm

from minigpt import data, ops
from minigpt.errors import InputError, check_ranges
from minigpt.gradcheck.judge import RaisedElsewhere
from minigpt.jobs.check import check_seconds, check_seed
from minigpt.jobs.option_fields import argument, option
from minigpt.learn.classroom.checking import MOST_SEEDS
from minigpt.learn.classroom.language import tr
from minigpt.learn.classroom.sentences import told, told_errors
from minigpt.learn.judging.check_file import read
from minigpt.learn.sandbox.process import Child
from minigpt.learn.sandbox.remote import RemoteFile
from minigpt.models.gpt2 import GPT2, GPT2Config
from minigpt.nn.optim import AdamW
from minigpt.nn.schedules import warmup_constant
from minigpt.tokenizer import CharTokenizer

STORIES = "stories:600:1"
LAYERS, HEADS, WIDTH, CONTEXT, BATCH = 2, 2, 48, 48, 8
RATE, WARMUP = 6e-3, 0.1  # of the rates and schedules in benchmarks/claim.py the best: a warm-up, then this rate
HELD_OUT = 12_000  # tokens
LOSSES = ("cross_entropy", "linear_cross_entropy", "soft_cross_entropy", "cosine_loss")
# Student's t at 97.5 % for 1, 2, … degrees of freedom (a table of any textbook); from 30 on it is nearly 2
STUDENT = (12.71, 4.30, 3.18, 2.78, 2.57, 2.45, 2.36, 2.31, 2.26, 2.23, 2.20, 2.18, 2.16, 2.14, 2.13,
           2.12, 2.11, 2.10, 2.09, 2.09, 2.08, 2.07, 2.07, 2.06, 2.06, 2.06, 2.05, 2.05, 2.05)  # fmt: skip
MOST_SEEDS_OF_A_CLAIM = 30


@dataclass(kw_only=True)
class ClaimOptions:
    """What `minigpt learn claim` can be told."""

    file: str = argument("Python with operations, `update` or `schedule`", metavar="FILE")
    seeds: int = option(6, "trainings with and without it, at least 3", metavar="N")
    steps: int = option(300, "updates of each training", metavar="N")
    seed: int | None = option(None, "the first of the seeds; default: drawn, so that it cannot be chosen", metavar="N")
    time_limit: float = option(900.0, "seconds for all of it", metavar="SECONDS")

    def check(self) -> None:
        """Raises InputError for a number outside its range."""
        check_ranges(self, 1, "steps")
        check_seed(self.seed or 0)
        if not 3 <= self.seeds <= MOST_SEEDS_OF_A_CLAIM:
            about = {"n": self.seeds, "most": MOST_SEEDS_OF_A_CLAIM}
            raise InputError(tr("--seeds {n}: give 3 to {most}; fewer cannot show noise", **about))
        check_seconds(self.time_limit)


class Outcome(NamedTuple):
    """Held-out losses in nats with and without the change, a pair for each seed."""

    without: list[float]
    with_it: list[float]

    @property
    def differences(self) -> list[float]:
        """with - without: below 0 is better."""
        return [mine - base for mine, base in zip(self.with_it, self.without, strict=True)]

    @property
    def difference(self) -> float:
        """Their mean."""
        return mean(self.differences)

    @property
    def half(self) -> float:
        """Half of the 95 % interval of the mean: what chance alone would give."""
        n = len(self.differences)
        return STUDENT[min(n - 2, len(STUDENT) - 1)] * stdev(self.differences) / math.sqrt(n)

    @property
    def holds(self) -> bool:
        """Is it better by more than chance?"""
        return self.difference + self.half < 0

    @property
    def seeds_needed(self) -> int:
        """About so many seeds would tell a difference of this size from chance."""
        if self.difference == 0:
            return MOST_SEEDS
        return math.ceil((2 * stdev(self.differences) / self.difference) ** 2) + 2


@told_errors()
def claim(options: ClaimOptions) -> bool:
    """Train with and without the change, and print what can be said. True where the claim holds.

    Raises InputError for a file with nothing to try, or one that fails in a training.
    """
    options.check()
    path = Path(options.file)
    text = read(path)
    first = secrets.randbelow(MOST_SEEDS) if options.seed is None else options.seed
    stories = corpus()
    with Child(options.time_limit) as child:
        file = RemoteFile(child, path, text)
        change = _change(file, path)
        print(tr("Tried: {what}. {n} seeds from {first}, {steps} updates each.", what=change.what, n=options.seeds,
                 first=first, steps=options.steps))  # fmt: skip
        without, with_it = [], []
        for seed in tqdm(range(first, first + options.seeds), unit=" seeds"):
            without.append(train(stories, seed, options.steps, NO_CHANGE))
            with_it.append(_tried(stories, seed, options.steps, change, path))
        child.finish()
        if child.failure:
            raise InputError(f"{path}: {child.failure}")
    if not np.isfinite(with_it).all():
        print(tr("Not shown: a training with it has diverged."))
        return False
    outcome = Outcome(without, with_it)
    _show(outcome)
    return outcome.holds


class Change(NamedTuple):
    """What a file changes: operations, the rule of the update, the schedule. what: in words."""

    what: str
    operations: types.ModuleType | None = None
    update: Callable | None = None
    schedule: Callable | None = None


NO_CHANGE = Change("nothing")


class Corpus(NamedTuple):
    """Token ids for training and for the held-out loss, and the size of the vocabulary."""

    train: np.ndarray
    valid: np.ndarray
    vocab_size: int


def train(corpus: Corpus, seed: int, steps: int, change: Change) -> float:
    """The held-out loss of a small GPT-2 after so many updates; weights and batches depend on the seed alone."""
    config = GPT2Config(vocab_size=corpus.vocab_size, n_positions=CONTEXT, n_embd=WIDTH, n_layer=LAYERS, n_head=HEADS)
    model = GPT2(config, seed=seed, dtype=np.float64)
    parameters = list(model.parameters())
    optimizer = AdamW(model.named_parameters())
    state = None
    with ops.using(change.operations or "fast"):
        for step in range(steps):
            batch = data.random_windows(corpus.train, BATCH, CONTEXT, seed, step)
            model.zero_grad()
            _, cache = model.loss(batch[:, :-1], batch[:, 1:])
            model.loss_backward(cache)
            factor = change.schedule(step, steps) if change.schedule else warmup_constant(step / steps, WARMUP)
            rate = RATE * _number(factor)
            if change.update is None:
                optimizer.step(rate, max_norm=1.0)
            else:
                state = _updated(change.update, parameters, state, rate, step)
    return _held_out(model, corpus, change)


def _held_out(model, corpus, change) -> float:
    """The mean loss on windows of the held-out text, with the changed operations; the loss itself is the library's.

    Raises RaisedElsewhere where a prediction depends on what comes after it.
    """
    kept = {name: value for name, value in vars(change.operations or types.ModuleType("none")).items()
            if name.endswith(("_forward", "_backward")) and not name.startswith(LOSSES)}  # fmt: skip
    windows = list(data.whole_windows(corpus.valid, CONTEXT, BATCH))
    with ops.using(types.SimpleNamespace(**kept) if kept else "fast"):
        if kept:
            _check_that_nothing_sees_the_future(model, windows[0][:, :-1])
        losses = [float(model.loss(one[:, :-1], one[:, 1:], grad=False)[0]) for one in windows]
    return float(np.average(losses, weights=[len(one) for one in windows]))


def _check_that_nothing_sees_the_future(model, ids) -> None:
    other = ids.copy()
    other[:, -1] = (other[:, -1] + 1) % model.config.vocab_size
    first, second = (model.forward(one, grad=False)[0][:, :-1] for one in (ids, other))
    if not np.allclose(first, second, equal_nan=True):
        raise RaisedElsewhere("with it a prediction depends on the token that it predicts: what comes after is seen")


def _updated(update, parameters, state, rate, step):
    """One update by a learner's rule; the parameters get their new values."""
    arrays = [parameter.data for parameter in parameters]
    gradients = [parameter.grad for parameter in parameters]
    answer = update(arrays, gradients, state, rate, step)
    if not (isinstance(answer, tuple) and len(answer) == 2):
        raise RaisedElsewhere(tr("update returns no pair (parameters, state)"))
    new, state = answer
    if not isinstance(new, (list, tuple)) or [np.shape(one) for one in new] != [one.shape for one in arrays]:
        raise RaisedElsewhere(tr("update returns parameters of other shapes than it was given"))
    for parameter, array in zip(parameters, new, strict=True):
        parameter.data = np.asarray(array, dtype=parameter.data.dtype)
    return state


def _number(factor) -> float:
    if not isinstance(factor, (int, float, np.number)):
        kind = type(factor).__name__
        raise RaisedElsewhere(tr("schedule returns a {kind}, where a number is expected", kind=kind))
    return float(factor)


def _tried(stories, seed, steps, change, path) -> float:
    """One training with the change. Raises InputError where it fails."""
    try:
        with np.errstate(all="ignore"):
            return train(stories, seed, steps, change)
    except (RaisedElsewhere, NotImplementedError, ValueError, TypeError) as error:
        why = told(str(error)) or tr("it is not filled in")
        about = {"file": path, "seed": seed, "why": why}
        raise InputError(tr("{file}: the training with it fails at seed {seed}: {why}", **about)) from error


def _change(file: RemoteFile, path: Path) -> Change:
    """What a learner's file changes. Raises InputError for one that changes nothing."""
    operations = file.operations()
    update, schedule = (file.function(name) if name in file.signatures else None for name in ("update", "schedule"))
    named = [*operations]
    if update:
        named.append(tr("its optimiser"))
    if schedule:
        named.append(tr("its schedule"))
    if not named:
        raise InputError(
            tr("{file} changes nothing: it has no pair of an operation, no `update` and no `schedule`", file=path)
        )
    return Change(", ".join(named), file.module if operations else None, update, schedule)


def corpus() -> Corpus:
    """The stories of every claim, a token for each character."""
    text = data.load(STORIES)
    train, valid = ("".join(text.pieces(part)) for part in ("train", "valid"))
    tokens = CharTokenizer.train(train)
    return Corpus(np.array(tokens.encode(train)), np.array(tokens.encode(valid))[:HELD_OUT], tokens.vocab_size)


def _show(outcome: Outcome) -> None:
    """A line for each seed, and what can be said."""
    print(tr("without     with it     difference"))
    for base, mine in zip(outcome.without, outcome.with_it, strict=True):
        print(f"{base:7.4f}     {mine:7.4f}     {mine - base:+.4f}")
    about: dict[str, Any] = {"d": abs(outcome.difference), "half": outcome.half, "n": len(outcome.without)}
    if outcome.holds:
        print(tr("The claim holds: {d:.4f} nats better, and chance alone gives {half:.4f} (95 %, {n} seeds).", **about))
    elif outcome.difference - outcome.half > 0:
        print(tr("It is worse, by {d:.4f} nats; chance alone gives {half:.4f} (95 %, {n} seeds).", **about))
        print(tr("That is a result too: say what you expected, and what you learned."))
    else:
        about["better"] = tr("better") if outcome.difference < 0 else tr("worse")
        print(tr("Not shown: {d:.4f} nats {better}, and chance alone gives {half:.4f} ({n} seeds).", **about))
        if outcome.seeds_needed <= MOST_SEEDS_OF_A_CLAIM:
            print(tr("If the difference is real, about {n} seeds would show it: --seeds {n}", n=outcome.seeds_needed))
        else:
            print(tr("A difference so small needs more than {n} seeds, or a larger idea.", n=MOST_SEEDS_OF_A_CLAIM))

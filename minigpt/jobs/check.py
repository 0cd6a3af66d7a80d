"""`minigpt check`: every operation of the library, and whole models, against finite differences."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from time import perf_counter
from typing import Any

import numpy as np

from minigpt import gradcheck, ops
from minigpt.errors import InputError
from minigpt.gradcheck.judge import Trial, guarded, judge
from minigpt.jobs.option_fields import argument, option
from minigpt.models import registry
from minigpt.models.gpt1 import GPT1
from minigpt.models.gpt2 import GPT2
from minigpt.ops.cases import KEY

TINY = {"embedding_size": 4, "generator_heads": 1, "n_distances": 3, "decoder_passes": 2, "n_hidden": 3,
        "d_kv": 4, "d_ff": 8, "n_inner": 10, "n_kv_head": 1, "sliding_window": 2}  # fmt: skip


@dataclass(kw_only=True)
class CheckOptions:
    """What `minigpt check` can be told."""

    file: str | None = argument("a Python file with pairs such as layernorm_forward", default=None, metavar="FILE")
    seed: int = option(0, "of the random inputs", metavar="S")
    all_cases: bool = option(False, "a case that FILE does not take (no eps, no mask, ...) counts as wrong")
    time_limit: float = option(300.0, "for all of FILE, in seconds; one call may take 10", metavar="S")


def run(seed: int = CheckOptions.seed, say: Callable[[str], None] = print) -> bool:
    """Check the library itself and print a table of relative errors; True if all of them are happy.

    A learner's file is checked by `minigpt.learn.judging.check_file.run`. Raises InputError for a negative seed.
    """
    check_seed(seed)
    report = Report(say)
    for op in ops.names:
        report.add(judge(op, *pair_of(ops, op), seed))
    report.add(models(seed))
    return report.close()


def check_seed(seed: int) -> None:
    """Raise InputError for a seed that NumPy's generators do not take."""
    if seed < 0:
        raise InputError(f"--seed {seed}: give 0 or more")


def check_seconds(seconds: float) -> None:
    """Raise InputError for a limit of time that is not positive."""
    if not seconds > 0:
        raise InputError(f"--time-limit {seconds:g}: give seconds, more than 0")


def pair_of(implementation: Any, op: str) -> tuple[Callable, Callable]:
    """Forward and backward of an operation by this implementation."""
    return getattr(implementation, f"{op}_forward"), getattr(implementation, f"{op}_backward")


def models(seed: int = 0, n_layer: int = 2) -> Iterator[Trial]:
    """Every parameter of small models.

    GPT-1 and GPT-2: plain, with dropout, and with ignored and weighted targets; each of their relatives: one batch.
    """
    for name, model, inputs in (*small_models(seed, n_layer), *relatives(seed)):
        yield name, guarded(gradcheck.check_model, model, **inputs, seed=seed)


def relatives(seed: int) -> Iterator[tuple[str, Any, dict]]:
    """As `small_models`, of every other model of the registry, with all that its loss may be given."""
    rng = np.random.default_rng(seed)
    ids = rng.integers(0, 9, (2, 4))
    targets = rng.integers(0, 9, (2, 4))
    for card in registry.CARDS:
        kind = card.model
        if kind in (GPT1, GPT2):
            continue
        n_head = min(2, kind.Config.n_head)  # type: ignore[misc]  # the default; cells have one
        sizes = {"vocab_size": 9, "n_positions": 5, "n_embd": 8, "n_layer": 1, "n_head": n_head}
        model = kind(kind.Config(**sizes | {name: size for name, size in TINY.items() if hasattr(kind.Config, name)}))
        yield f"{kind.__name__}, one batch", model, {"ids": ids, "targets": targets} | model.trial_inputs(ids)


def small_models(seed: int, n_layer: int) -> Iterator[tuple[str, Any, dict]]:
    """What is tried, a small model in float32, and the arguments of its loss: ids, targets and more."""
    rng = np.random.default_rng(seed)
    ids = rng.integers(0, 9, (2, 3))
    targets = rng.integers(0, 9, (2, 3))
    weights = rng.uniform(0.5, 2, (2, 3))
    some_targets = np.where(np.arange(3) == 1, ops.IGNORED, targets)
    trials = [
        (f"layers: {n_layer}", n_layer, {"targets": targets}),
        ("dropout", 1, {"targets": targets, "key": KEY}),
        ("weighted targets", 1, {"targets": some_targets, "weights": weights, "normalizer": 5.0}),
    ]
    for name, kind in (("GPT-1", GPT1), ("GPT-2", GPT2)):
        for what, layers, options in trials:
            config = kind.Config(vocab_size=9, n_positions=5, n_embd=8, n_layer=layers, n_head=2)
            yield f"{name}, {what}", kind(config, seed), {"ids": ids} | options


class Report:
    """Prints a line for each trial as it ends, below it what is wrong, and at the end the sum of it all."""

    def __init__(self, say: Callable[[str], None], all_cases: bool = False):
        self.say = say
        self.all_cases = all_cases  # a skipped case counts as one that failed
        self.start = perf_counter()
        self.worst = (0.0, "")
        self.left_out = []  # the titles of the cases that were skipped, each with the reason
        self.wrong = []  # (what was tried, a result that is not happy)
        self.failed = 0
        self.trials = 0
        self.skipped = 0
        self.tensors = 0
        self._line("tried", "tensors", "worst error", "", "in")

    def _line(self, *columns) -> None:
        line = "{:44} {:>7}  {:>11}  {:10}  {}".format(*columns)
        self.say(line.rstrip())

    def add(self, trials: Iterable[Trial], prefix: str = "") -> None:
        """Print these trials; what is wrong with a tensor is printed once."""
        explained = set()
        for what, results in trials:
            if not results:  # a case that was skipped: its title says why
                self.skipped += 1
                self.left_out.append(prefix + what)
                self.say(prefix + what)
                continue
            worst = gradcheck.worst(results)
            self._line(prefix + what, len(results), f"{worst.error:.1e}", worst.word, worst.name)
            self.trials += 1
            self.tensors += len(results)
            self.failed += worst.word != "happy"
            self.worst = max(self.worst, (worst.error, prefix + what))
            self.wrong += [(prefix + what, result) for result in results if result.word != "happy"]
            for result in results:
                if result.diagnosis and result.name not in explained:
                    explained.add(result.name)
                    text = gradcheck.table([result])
                    self.say("    " + text.replace("\n", "\n    "))

    def close(self) -> bool:
        """Print the last line; True if everything was happy."""
        seconds = f"{perf_counter() - self.start:.0f} s"
        if self.failed:
            summary = f"{self.failed} of {self.trials} trials are not right; below each stands what is likely wrong."
            self.say(f"{summary} {seconds}")
            return False
        if not self.trials:
            self.say("Nothing could be judged.")
            return False
        if self.skipped and self.all_cases:
            self.say(f"{self.skipped} cases were skipped, and --all-cases counts them: not happy yet. {seconds}")
            return False
        error, where = self.worst
        skipped = f"; {self.skipped} cases skipped, which --all-cases counts as wrong" if self.skipped else ""
        summary = f"All {self.tensors} tensors are happy{skipped}; the worst relative error is {error:.1e} ({where})."
        self.say(f"{summary} {seconds}")
        return True

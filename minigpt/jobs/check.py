"""`minigpt check`: every operation and whole models against finite differences; with a file, a learner's operations."""

import traceback
import types
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np

from minigpt import gradcheck, ops
from minigpt.errors import InputError
from minigpt.gradcheck import Result
from minigpt.gradcheck.diagnosis import Evidence
from minigpt.jobs.options import argument, option
from minigpt.models.gpt1 import GPT1
from minigpt.models.gpt2 import GPT2
from minigpt.ops import reference, shapes

KEY = ops.Key.of(1, 2)
Trial = tuple[str, list[Result]]  # what was tried, and what was found


@dataclass(kw_only=True)
class CheckOptions:
    """What `minigpt check` can be told."""

    file: str | None = argument("a Python file with pairs such as layernorm_forward", default=None, metavar="FILE")
    seed: int = option(0, "of the random inputs", metavar="S")


def run(file: str | Path | None = None, seed: int = CheckOptions.seed, say: Callable[[str], None] = print) -> bool:
    """Print a table of relative errors; True if all of them are happy.

    file: Python with pairs such as layernorm_forward and layernorm_backward; None checks the library itself.
    Raises InputError for a file that is missing, cannot be run, or has no pair.
    """
    if seed < 0:
        raise InputError(f"--seed {seed}: give 0 or more")
    if file is None:
        report = _Report(say)
        for op in ops.names:
            report.add(judge(op, *_pair(ops, op), seed))
        report.add(models(seed))
        return report.close()
    module = load(file)
    with ops.using(module):  # refuses a file with no pair, or with half of one
        report = _Report(say)
        theirs = {name for name, x in vars(module).items() if x is not getattr(ops, name, None)}
        own = [op for op in ops.names if theirs >= {f"{op}_forward", f"{op}_backward"}]
        for op in own:
            report.add(judge(op, *_pair(module, op), seed))
        if report.failed:
            say("Once these are right, they are also tried in place: in the composites and in small models.")
            return report.close()
        for op in (op for op in ops.composites if op not in own):
            report.add(islice(judge(op, *_pair(ops, op), seed), 1), "with it: ")
        report.add(models(seed, n_layer=1), "with it: ")
        return report.close()


def load(file: str | Path) -> types.ModuleType:
    """Run a Python file and return it as a module; nothing is left beside it."""
    path = Path(file)
    if not path.is_file():
        raise InputError(f"{path} is not a file: give Python with a pair such as layernorm_forward, layernorm_backward")
    module = types.ModuleType(path.stem)
    module.__file__ = str(path)
    try:
        code = compile(path.read_bytes(), str(path), "exec")
    except (SyntaxError, ValueError) as error:
        where = f", line {error.lineno}" if getattr(error, "lineno", None) else ""
        raise InputError(f"{path}{where}: this is not Python: {getattr(error, 'msg', error)}") from error
    try:
        exec(code, vars(module))
    except (Exception, SystemExit) as error:
        raise InputError(f"{path} cannot be run: {describe(error)}") from error
    return module


def _pair(implementation: Any, op: str) -> tuple[Callable, Callable]:
    return getattr(implementation, f"{op}_forward"), getattr(implementation, f"{op}_backward")


def judge(op: str, forward: Callable, backward: Callable, seed: int = 0) -> Iterator[Trial]:
    """Try a pair as the operation `op`, in all its variants and shapes; yields what was tried and what was found."""
    model, happy, tried = _pair(reference, op)[0], True, None
    for what, args, constants in cases(op, seed):
        values = list(args.values())
        if _guarded(forward, *values, **constants) is NotImplemented:
            continue  # it hands this case on to the next implementation
        results = _guarded(gradcheck.check, forward, backward, values, constants, args, seed, reference=model)
        yield what, results
        happy, tried = happy and not any(result.diagnosis for result in results), tried or (args, constants)
        if "nothing yet" in results[0].diagnosis:
            return
    if happy and tried:
        yield f"{op}, inputs times 1000", _guarded(_large, op, forward, backward, *tried, seed)


def _guarded(function: Callable, *args, **constants) -> Any:
    """What function returns; what a learner's code raises in it becomes a result."""
    try:
        with np.errstate(all="ignore"):
            return function(*args, **constants)
    except Exception as error:
        return [Result("error", diagnosis=describe(error))]


def describe(error: BaseException) -> str:
    """What was raised and where, in one line: the innermost line that is in no library."""
    libraries = str(Path(__file__).parent), str(Path(np.__file__).parent)
    frames = [f for f in traceback.extract_tb(error.__traceback__) if not f.filename.startswith(libraries)]
    where = f" in line {frames[-1].lineno}, `{frames[-1].line}`" if frames else ""
    return f"{type(error).__name__}{where}: {' '.join(str(error).split())}"


def _large(op: str, forward: Callable, backward: Callable, args: dict, constants: dict, seed: int) -> list[Result]:
    """A pair beside the reference on inputs a thousand times as large: nothing may overflow."""
    names = [name for name, x in args.items() if getattr(x, "dtype", None) == np.float64]
    values, found = [x * 1000 if name in names else x for name, x in args.items()], []
    for f, b in ((forward, backward), _pair(reference, op)):
        out, cache = f(*values, **constants)
        dout = np.random.default_rng(seed).standard_normal(np.shape(out))[()]
        gradients = b(dout, cache)
        found.append([out, *(gradients if isinstance(gradients, (tuple, list)) else [gradients])])
    mine, true = (dict(zip(["out", *names], arrays, strict=True)) for arrays in found)
    known = {"out": true["out"], "dout": dout}
    return [gradcheck.compare(name, mine[name], true[name], Evidence(known, constants, name, true)) for name in true]


def cases(op: str, seed: int = 0) -> Iterator[tuple[str, dict, dict]]:
    """What an operation is tried on: (name of the case, arguments by name, constants)."""
    forward, _ = _pair(reference, op)
    for leading in shapes.leading_axes(forward):
        args = shapes.examples(forward, leading, seed=seed)
        size = "x".join(map(str, max((np.shape(x) for x in args.values()), key=len)))
        variants = _variants(op, args, np.random.default_rng(seed))
        for variant, changes in list(variants.items())[: None if leading == shapes.LEADING else 1]:
            constants = {name: value for name, value in changes.items() if name not in args}
            changed = {name: changes.get(name, value) for name, value in args.items()}
            yield f"{op} {size}{variant and ', '}{variant}", changed, constants


def _variants(op: str, args: dict, rng: np.random.Generator) -> dict[str, dict]:
    """Names of variants, each with the arguments and constants that make it. The first is tried on all shapes."""
    chance = {"rate": 0.3, "key": KEY}
    if op == "linear":
        return {"": {}, "no bias": {"b": None}}
    if op == "layernorm":
        return {"": {}, "eps 0.1": {"eps": 0.1}}
    if op == "dropout":
        return {"": chance, "evaluation": {"rate": 0.3, "key": None}}
    if op == "attention":
        mask = rng.random((4, 5)) < 0.6
        mask[1] = False  # a query that may see nothing
        fewer = {"k": args["k"][..., :3, :], "v": args["v"][..., :3, :]}
        both = {"mask": mask} | chance
        return {"": {}, "mask": {"mask": mask}, "dropout": chance, "mask and dropout": both, "fewer keys": fewer}
    if op == "self_attention":
        past = tuple(rng.standard_normal((2, 3, 6, 5)) for _ in "kv")
        return {"": {}, "mask": {"mask": rng.random((4, 4)) < 0.6}, "dropout": chance, "past": {"past": past}}
    if op in ("cross_entropy", "linear_cross_entropy"):
        targets = args["targets"].copy()
        targets.flat[1] = ops.IGNORED
        some, weights = {"targets": targets}, {"weights": rng.uniform(0.5, 2, targets.shape)}
        return {"": {}, "ignored targets": some, "weights": some | weights, "normalizer": some | {"normalizer": 7.5}}
    return {"": {}}


def models(seed: int = 0, n_layer: int = 2) -> Iterator[Trial]:
    """Every parameter of small GPT-1 and GPT-2 models: plain, with dropout, and with ignored and weighted targets."""
    rng = np.random.default_rng(seed)
    ids, targets, weights = rng.integers(0, 9, (2, 3)), rng.integers(0, 9, (2, 3)), rng.uniform(0.5, 2, (2, 3))
    some = {"targets": np.where(np.arange(3) == 1, ops.IGNORED, targets), "weights": weights, "normalizer": 5.0}
    for name, kind in (("GPT-1", GPT1), ("GPT-2", GPT2)):
        for what, layers, options in (
            (f"layers: {n_layer}", n_layer, {"targets": targets}),
            ("dropout", 1, {"targets": targets, "key": KEY}),
            ("weighted targets", 1, some),
        ):
            model = kind(kind.Config(vocab_size=9, n_positions=5, n_embd=8, n_layer=layers, n_head=2), seed)
            yield f"{name}, {what}", _guarded(gradcheck.check_model, model, ids, seed=seed, **options)


class _Report:
    """Prints a line for each trial as it ends, below it what is wrong, and the sum of it all."""

    def __init__(self, say: Callable[[str], None]):
        self.say, self.start, self.worst = say, perf_counter(), (0.0, "")
        self.failed = self.trials = self.tensors = 0
        self.line("tried", "tensors", "worst error", "", "in")

    def line(self, *columns) -> None:
        self.say("{:44} {:>7}  {:>11}  {:10}  {}".format(*columns).rstrip())

    def add(self, trials: Iterable[Trial], prefix: str = "") -> None:
        told = set()
        for what, results in trials:
            worst = gradcheck.worst(results)
            self.line(prefix + what, len(results), f"{worst.error:.1e}", worst.word, worst.name)
            self.trials, self.tensors = self.trials + 1, self.tensors + len(results)
            self.failed += worst.word != "happy"
            self.worst = max(self.worst, (worst.error, prefix + what))
            for result in results:
                if result.diagnosis and result.name not in told:
                    told.add(result.name)
                    self.say("    " + gradcheck.table([result]).replace("\n", "\n    "))

    def close(self) -> bool:
        """The last line; True if everything was happy."""
        happy = "All {} tensors are happy; the worst relative error is {:.1e} ({}).".format(self.tensors, *self.worst)
        sorry = f"{self.failed} of {self.trials} trials are not right; below each stands what is likely wrong."
        self.say(f"{sorry if self.failed else happy} {perf_counter() - self.start:.0f} s")
        return not self.failed

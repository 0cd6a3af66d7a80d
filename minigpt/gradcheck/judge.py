"""Judging one pair as an operation: it is tried on every case, and its output is compared with the reference."""

import traceback
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from minigpt.gradcheck.checker import check, compare
from minigpt.gradcheck.evidence import Evidence
from minigpt.gradcheck.results import Result
from minigpt.ops import reference
from minigpt.ops.cases import Case, cases
from minigpt.ops.overrides import as_taken, why_not

Trial = tuple[str, list[Result]]  # what was tried, and what was found; of a skipped case the reason, and no result


def judge(op: str, forward: Callable, backward: Callable, seed: int = 0) -> Iterator[Trial]:
    """Try a pair as the operation `op` on all its cases; yields what was tried and what was found.

    A case with an option that forward does not take, such as a mask, is skipped, and the trial says why; but not the
    first case, which is the operation itself.
    """
    right = getattr(reference, f"{op}_forward")

    def call(*args, **constants):
        args, constants = as_taken(forward, right, args, constants)
        return forward(*args, **constants)

    first = None
    happy = True
    for case in cases(op, seed):
        values = list(case.args.values())
        problem = why_not(forward, right, values, case.constants)
        if problem and case.name != op:
            yield f"{case.title}: skipped, {op}_forward {problem}", []
            continue
        if guarded(case.run, call) is NotImplemented:
            continue  # the next implementation is responsible for this case
        results = guarded(check, call, backward, values, case.constants, case.args, seed, reference=right)
        yield case.title, results
        if "nothing yet" in results[0].diagnosis:
            return
        first = first or case
        happy = happy and not any(result.diagnosis for result in results)
    if first and happy:
        yield f"{op}, inputs times 1000", guarded(_on_large_inputs, first, call, backward, seed)


def _on_large_inputs(case: Case, forward: Callable, backward: Callable, seed: int) -> list[Result]:
    """A pair beside the reference on inputs a thousand times as large: nothing may overflow."""
    case = case.times(1000)
    right_forward = getattr(reference, f"{case.op}_forward")
    right_backward = getattr(reference, f"{case.op}_backward")
    _, mine = case.run_both(forward, backward, seed)
    dout, true = case.run_both(right_forward, right_backward, seed)
    known = {"out": true["out"], "dout": dout}
    results = []
    for name, right in true.items():
        evidence = Evidence(known, case.constants, name, true)
        results.append(compare(name, mine[name], right, evidence))
    return results


def guarded(function: Callable, *args, **constants) -> Any:
    """What function returns; or, where it raises an error, a list of one `Result` with the description of the error."""
    try:
        with np.errstate(all="ignore"):
            return function(*args, **constants)
    except Exception as error:
        return [Result("error", diagnosis=describe(error))]


def describe(error: BaseException) -> str:
    """What was raised and where, in one line: the innermost line that is neither in this package nor in NumPy."""
    package = str(Path(__file__).parent.parent)
    numpy = str(Path(np.__file__).parent)
    where = ""
    for frame in traceback.extract_tb(error.__traceback__):
        if not frame.filename.startswith((package, numpy)):
            where = f" in line {frame.lineno}, `{frame.line}`"
    message = " ".join(str(error).split())
    return f"{type(error).__name__}{where}: {message}"

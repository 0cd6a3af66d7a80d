"""Judging one pair as an operation: it is tried on every case, and its output is compared with the reference."""

import traceback
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np

from minigpt.gradcheck.checker import Result, check, compare
from minigpt.gradcheck.evidence import Evidence
from minigpt.ops import reference
from minigpt.ops.cases import cases

Trial = tuple[str, list[Result]]  # what was tried, and what was found


def judge(op: str, forward: Callable, backward: Callable, seed: int = 0) -> Iterator[Trial]:
    """Try a pair as the operation `op` on all its cases; yields what was tried and what was found."""
    right = getattr(reference, f"{op}_forward")
    first = None
    happy = True
    for case in cases(op, seed):
        if not case.is_known_to(forward):
            continue
        if guarded(case.run, forward) is NotImplemented:
            continue  # it leaves this case to the next implementation
        values = case.args.values()
        results = guarded(check, forward, backward, values, case.constants, case.args, seed, reference=right)
        yield case.title, results
        if "nothing yet" in results[0].diagnosis:
            return
        first = first or case
        happy = happy and not any(result.diagnosis for result in results)
    if first and happy:
        yield f"{op}, inputs times 1000", guarded(_on_large_inputs, first, forward, backward, seed)


def _on_large_inputs(case, forward, backward, seed):
    """A pair beside the reference on inputs a thousand times as large: nothing may overflow."""
    case = case.times(1000)
    right = [getattr(reference, f"{case.op}_{way}") for way in ("forward", "backward")]
    _, mine = case.run_both(forward, backward, seed)
    dout, true = case.run_both(*right, seed)
    known = {"out": true["out"], "dout": dout}
    return [compare(name, mine[name], true[name], Evidence(known, case.constants, name, true)) for name in true]


def guarded(function: Callable, *args, **constants):
    """What function returns; an error that is raised in it, such as by a learner's code, becomes a result."""
    try:
        with np.errstate(all="ignore"):
            return function(*args, **constants)
    except Exception as error:
        return [Result("error", diagnosis=describe(error))]


def describe(error: BaseException) -> str:
    """What was raised and where, in one line: the innermost line that is neither in this package nor in NumPy."""
    libraries = str(Path(__file__).parent.parent), str(Path(np.__file__).parent)
    frames = traceback.extract_tb(error.__traceback__)
    frames = [frame for frame in frames if not frame.filename.startswith(libraries)]
    where = f" in line {frames[-1].lineno}, `{frames[-1].line}`" if frames else ""
    message = " ".join(str(error).split())
    return f"{type(error).__name__}{where}: {message}"

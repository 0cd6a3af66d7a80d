"""Judging one pair as an operation: it is tried on every case, and its output is compared with the reference."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from minigpt.gradcheck.checker import check, compare
from minigpt.gradcheck.evidence import Evidence
from minigpt.gradcheck.raised import described, message_of
from minigpt.gradcheck.results import Result
from minigpt.ops import reference
from minigpt.ops.cases import Case, cases
from minigpt.ops.overrides import as_taken, why_not

HIDDEN = (str(Path(__file__).parent.parent), str(Path(np.__file__).parent), "<frozen")  # code that nobody here wrote

OVERFLOW = "Does exp overflow, or is it a log of 0? Of a softmax, the maximum of each row is subtracted first."


class RaisedElsewhere(Exception):
    """An error of a pair that runs in another process: its message is the description of what went wrong there."""


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
            yield f"{case.title}: skipped, {op}_forward leaves it to the library", []
            continue
        results = guarded(check, call, backward, values, case.constants, case.args, seed, reference=right)
        results = [_unfinished(result, case, call, backward, seed) for result in results]
        yield case.title, results
        if any("nothing yet" in result.diagnosis for result in results):
            return
        first = first or case
        happy = happy and not any(result.diagnosis for result in results)
    if not first:
        yield op, [Result("forward", diagnosis="It leaves every case to the library: there is nothing to judge.")]
    elif happy:
        yield f"{op}, inputs times 1000", guarded(_on_large_inputs, first, call, backward, seed)


def _unfinished(result: Result, case: Case, forward: Callable, backward: Callable, seed: int) -> Result:
    """A result that says of a backward pass with gaps which gradients are right already, and which are missing."""
    if result.name != "backward" or not result.diagnosis.startswith("It returns "):
        return result
    said = guarded(_what_is_there, case, forward, backward, seed)
    return result._replace(diagnosis=said) if isinstance(said, str) else result


def _what_is_there(case, forward, backward, seed):
    """ "It returns nothing yet for dq and dk; dv is right."; None where the gaps cannot be told from the gradients."""
    right_forward = getattr(reference, f"{case.op}_forward")
    right_backward = getattr(reference, f"{case.op}_backward")
    dout, true = case.run_both(right_forward, right_backward, seed)
    true.pop("out")
    _, cache = case.run(forward)
    gradients = backward(dout, cache)
    if not isinstance(gradients, (tuple, list)) or len(gradients) != len(true):
        return None
    words = {"nothing": [], "right": [], "wrong": []}
    for gradient, (name, right) in zip(gradients, true.items(), strict=True):
        if gradient is None or gradient is ...:
            word = "nothing"
        else:
            is_right = np.shape(gradient) == right.shape and np.allclose(gradient, right, rtol=1e-6, atol=1e-9)
            word = "right" if is_right else "wrong"
        words[word].append(f"d{name}")
    sentence = f"It returns nothing yet for {listed(words['nothing'])}"
    for word in ("right", "wrong"):
        if words[word]:
            verb = "is" if len(words[word]) == 1 else "are"
            sentence += f"; {listed(words[word])} {verb} {word}"
    return sentence + "." if words["right"] or words["wrong"] else None


def listed(names: list[str]) -> str:
    """The names in words: "dq, dk and dv"."""
    *first, last = names or [""]
    return f"{', '.join(first)} and {last}" if first else last


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
        result = compare(name, mine[name], right, evidence)
        if not np.isfinite(mine[name]).all():
            result = result._replace(diagnosis=f"{result.diagnosis} {OVERFLOW}")
        results.append(result)
    return results


def guarded(function: Callable, *args, **constants) -> Any:
    """What function returns; or, where it raises an error, a list of one `Result` with the description of the error."""
    try:
        with np.errstate(all="ignore"):
            return function(*args, **constants)
    except Exception as error:
        return [Result("error", diagnosis=describe(error))]


def describe(error: BaseException) -> str:
    """What was raised and where, in one line: the innermost line that is neither in this package nor in NumPy.

    Where shapes do not fit, it names the arrays of that line with their shapes.
    """
    if isinstance(error, RaisedElsewhere):
        return message_of(error)
    return described(error, HIDDEN)

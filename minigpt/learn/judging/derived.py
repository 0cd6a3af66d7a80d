"""Was a gradient derived, or computed from the forward pass as (f(x + h) - f(x - h)) / 2h? Its values do not tell.

A formula that was derived keeps the digits of its arithmetic. A numerical derivative is what is left of numbers that
are nearly equal, and loses 1/h times as many: an imaginary part of 1e-20 beside a real one loses all. So a backward
pass that is right is run once more, on the same values, with each number that it computes rounded to 9 digits. What it
gives then is compared with what it gave before.

Measured on every operation (sandbox/README.md has the table): formulas keep 8 digits, two points at most 4, the complex
step and long doubles 1. Eight points far apart are not always told from a formula. Dual numbers are: their rules were
derived by whoever wrote them.
"""

import math
from collections.abc import Iterable, Iterator
from functools import partial
from typing import Any

import numpy as np

from minigpt.gradcheck.judge import RaisedElsewhere
from minigpt.gradcheck.results import HAPPY, Result
from minigpt.jobs.check import pair_of
from minigpt.learn.judging.rounded import rounded
from minigpt.learn.sandbox.remote import Call, RemoteFile
from minigpt.ops import reference
from minigpt.ops.cases import cases
from minigpt.ops.overrides import as_taken, why_not

LEAST = 1e-3  # of the largest gradient: a smaller one is measured by this


def not_derived(remote: RemoteFile, calls: Iterable[Call]) -> list[Result]:
    """A result for each backward pass whose gradients lose their digits where its numbers are rounded.

    calls: of passes that are right. A file that cannot be run with rounded numbers has no result.
    """
    calls = tuple(calls)
    worst = {}
    try:
        with remote.with_text(rounded(remote.text)):
            for call in calls:
                worst[call.name] = max(worst.get(call.name, 0.0), _lost(call))
    except (RaisedElsewhere, NotImplementedError, ValueError, RecursionError):
        return []
    return [Result(name, error, _says(error)) for name, error in worst.items() if error >= HAPPY]


def calls_of_operations(remote: RemoteFile, seed: int) -> Iterator[Call]:
    """The backward passes of the operations of a file, on the cases that it takes."""
    for op in remote.operations():
        right = getattr(reference, f"{op}_forward")
        forward, backward = pair_of(remote.module, op)
        for case in cases(op, seed):
            values = list(case.args.values())
            if why_not(forward, right, values, case.constants):
                continue
            args, constants = as_taken(forward, right, values, case.constants)
            result = forward(*args, **constants)
            if result is NotImplemented:
                continue
            out, cache = result
            dout = np.random.default_rng(seed).standard_normal(np.shape(out))[()]
            yield Call(f"{op}_backward", partial(backward, dout, cache), backward(dout, cache))


def arrays(gradients: Any) -> list[np.ndarray]:
    """The gradients of a backward pass that are arrays or numbers in float64."""
    group = gradients if isinstance(gradients, (tuple, list)) else [gradients]
    return [np.asarray(one) for one in group if getattr(one, "dtype", None) == np.float64 and np.size(one)]


def _lost(call):
    """The largest relative difference between the gradients of a call and those with rounded numbers."""
    exact = arrays(call.returned)
    shorter = arrays(call.again())
    if not exact or [one.shape for one in exact] != [one.shape for one in shorter]:
        return 0.0
    largest = max(abs(one).max() for one in exact) or 1.0
    errors = [abs(x - y).max() / max(abs(x).max(), LEAST * largest) for x, y in zip(exact, shorter, strict=True)]
    return float(np.nan_to_num(max(errors), nan=1.0))


def _says(error):
    digits = max(0, math.floor(-math.log10(error)))
    return (
        f"Its values are right, but where each step is rounded to 9 digits they keep {digits}, as finite differences "
        "and the complex step do. Derive it: each line of a backward pass undoes one line of the forward pass."
    )

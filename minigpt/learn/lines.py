"""Forward and backward, line by line: every value by its name, every gradient against finite differences.

    def forward(x, w):
        h = x @ w
        out = np.maximum(h, 0)
        return out

    def backward(dout, v):                    # v: the values of the forward pass, by name
        # out = np.maximum(h, 0)
        dh = dout * (v.h > 0)
        # h = x @ w
        dx = dh @ v.w.T
        dw = v.x.T @ dh
        return dx, dw

    results = lines.check(forward, backward, x, w)

The gradient `dh` is compared with what happens to sum(out * dout) when an entry of `h` is moved and the lines that
use it run again. So the first line that is wrong has a name.
"""

import contextlib
import functools
import textwrap
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from minigpt import ops
from minigpt.device.arrays import Array
from minigpt.errors import InputError
from minigpt.gradcheck import Result, compare, numeric
from minigpt.gradcheck.evidence import Evidence, is_float, same
from minigpt.gradcheck.judge import HIDDEN
from minigpt.gradcheck.raised import described
from minigpt.learn.parts import Passes, why
from minigpt.learn.recording import Recorded, recorded
from minigpt.learn.sandbox.answers import Values

OF_DOUT = 1  # no exercise draws its inputs with [seed, 1]: dout must differ from all of them
COLUMNS = 100  # no printed line is longer
_watchers: list[list[Result]] = []


def run(forward: Callable, *args, **constants) -> Values:
    """Run a forward pass, print each line with the shape of its value, and return the values by name.

    forward: a function written with `def`, in which every name is given one value. Raises InputError otherwise.
    """
    steps = recorded(forward)
    values = _values(steps, args, constants)
    width = max(len(_shape(value)) for value in values.values())
    print(f"{'shape':{width}}   line")
    before = ""
    for name, value in values.items():
        line = steps.lines.get(name, f"{name} is given")
        again = f"    and {name}"  # of a line that gives values to several names
        print(f"{_shape(value):{width}}   {again if line == before else line}"[:COLUMNS])
        before = line
    return Values(values)


def check(forward: Callable, backward: Callable, *args, seed: int = 0, **constants) -> list[Result]:
    """Compare every `d…` of a backward pass with finite differences, print a table, and return the results.

    forward(*args, **constants) -> out, as for `run`, with its floats in float64. backward(dout, v): `dh` in it is the
    gradient of the value `h` of the forward pass, which it reads as `v.h`; dout is drawn from the seed.

    Below the table stand the first line that is wrong, with what it undoes, and the values that were read: what a cache
    must keep. One result for each gradient, in the order of the backward pass, and one for each float argument whose
    gradient is missing. Raises InputError as `run` does.
    """
    steps = recorded(forward)
    values = _values(steps, args, constants)
    out = steps.call(_unchanged, *args, **constants)
    dout = np.random.default_rng([seed, OF_DOUT]).normal(size=np.shape(out))
    v = Values(values)
    gradients, stopped, returned = _gradients(backward, dout, v)

    @functools.cache
    def true_of(name):
        return _numeric(steps, name, values[name], args, constants, dout)

    inputs = [name for name, value in zip(steps.parameters, args, strict=False) if is_float(value)]
    passes = Passes(steps, values, {"out": dout} | {name[1:]: value for name, value in gradients.items()}, true_of)
    results = _judged(passes, gradients, dout, np.asarray(out))
    results += _missing(inputs, results, stopped)
    results += _not_as_returned(returned, inputs, results, true_of)

    for watcher in _watchers:
        watcher += results
    _show(results, gradients)
    _show_first_wrong(results, steps, stopped)
    _show_read(v)
    return results


@contextlib.contextmanager
def watched() -> Iterator[list[Result]]:
    """Collect the results of every `check` inside: for a judge that wants to know what an exercise has found."""
    results: list[Result] = []
    _watchers.append(results)
    try:
        yield results
    finally:
        _watchers.remove(results)


def folded(diagnosis: str) -> str:
    """A diagnosis as `check` prints it: indented, in lines of at most 100 characters."""
    return textwrap.fill(diagnosis, COLUMNS, initial_indent="  ", subsequent_indent="  ")


def exit_status(results: list[Result]) -> int:
    """0 where every gradient is happy, else 1. The last line of an exercise: `raise SystemExit(exit_status(…))`."""
    return int(any(result.word != "happy" for result in results) or not results)


# --- both passes, with their values ----------------------------------------------------------------------------------


def _unchanged(name: str, value: Any) -> Any:
    return value


def _values(steps: Recorded, args: tuple, constants: dict) -> dict[str, Any]:
    """Every value of a forward pass by name, its arguments first."""
    values = dict(zip(steps.parameters, args, strict=False)) | constants

    def keep(name, value):
        if name in values:
            raise InputError(f"{name!r} is given two values, the second by {steps.lines[name]!r}: use two names")
        values[name] = value
        return value

    steps.call(keep, *args, **constants)
    return values


def _gradients(backward: Callable, dout: Array, v: Values) -> tuple[dict[str, Any], str, Any]:
    """The gradients of the values of `v`, in the order of their completion; why it stopped; what it returned."""
    gradients = {}
    in_another_process = getattr(backward, "lines", None)

    def keep(name, value):
        if name[:1] == "d" and name[1:] in v._values:
            gradients.pop(name, None)  # a gradient with several parts counts when its last part is added
            gradients[name] = value
        return value

    if in_another_process:
        done = in_another_process(dout, v._values)
        for name, value in done.assigned:
            keep(name, value)
        v._read |= {name: v._values[name] for name in done.read if name in v._values}
        return gradients, done.stopped, done.returned
    try:
        returned = recorded(backward).call(keep, dout, v)
    except (TypeError, ValueError, IndexError, AttributeError) as error:  # such as None + 1, where a line is missing
        return gradients, described(error, HIDDEN), None
    return gradients, "", returned


def _numeric(steps: Recorded, name: str, value: Any, args: tuple, constants: dict, dout: Array) -> Array:
    """The gradient of sum(out * dout) with respect to one value of the forward pass, by finite differences."""

    def out_with(moved):
        def replace(this, value):
            return moved if this == name else value

        changed = [moved if parameter == name else arg for parameter, arg in zip(steps.parameters, args, strict=False)]
        return np.asarray(steps.call(replace, *changed, **constants))

    return numeric(out_with, np.array(value, dtype=np.float64), dout)


def _judged(passes: Passes, gradients: dict[str, Any], dout: Array, out: Array) -> list[Result]:
    """A result for each gradient of the backward pass, in its order."""
    known = {name: value for name, value in passes.values.items() if hasattr(value, "dtype")}
    known = {"out": out, "dout": dout} | known
    own = {name: np.asarray(value) for name, value in gradients.items() if is_float(value)}
    results = []
    for name, gradient in gradients.items():
        true = passes.true_of(name[1:])
        others = {other: value for other, value in own.items() if other != name and not same(value, true)}
        result = _result(name, gradient, true, Evidence(known | others))
        if result.diagnosis and is_float(gradient) and np.shape(gradient) == true.shape:
            result = result._replace(diagnosis=_with_cause(result.diagnosis, why(name[1:], passes, Evidence(known))))
        results.append(result)
    return results


def _result(name: str, gradient: Any, true: Array, evidence: Evidence) -> Result:
    if gradient is None or gradient is Ellipsis:
        return Result(name, diagnosis="this line returns nothing yet: your turn")
    return compare(name, np.asarray(gradient, dtype=np.float64), true, evidence)


def _with_cause(found: str, cause: str) -> str:
    """What the array shows, and what its line shows; the first alone only where the line shows nothing."""
    if cause and found.startswith("What is missing is"):
        return f"{found} {cause}"
    return cause or found


def _missing(inputs: list[str], results: list[Result], stopped: str) -> list[Result]:
    """Why the backward pass stopped, where it was complete up to there, and each input whose gradient is missing."""
    there = {result.name for result in results}
    unfinished = any("nothing yet" in result.diagnosis for result in results)
    missing = [Result(f"d{name}", diagnosis="this gradient is missing") for name in inputs if f"d{name}" not in there]
    if stopped and not unfinished:
        missing.insert(0, Result("backward", diagnosis=f"it stops here: {stopped}"))
    return missing


def _not_as_returned(returned: Any, inputs: list[str], results: list[Result], true_of: Callable) -> list[Result]:
    """What is wrong with the values that were returned, where every gradient is right under its own name."""
    if any(result.word != "happy" for result in results):
        return []
    if returned is None:
        return [Result("return", diagnosis="It returns nothing: the last line must return the gradients.")]
    values = returned if isinstance(returned, (tuple, list)) else [returned]
    order = ", ".join(f"d{name}" for name in inputs)
    if len(values) < len(inputs):
        return [Result("return", diagnosis=f"It returns {len(values)} gradients; expected {len(inputs)}: {order}.")]
    for name, value in zip(inputs, values, strict=False):  # what is returned besides is only to be looked at
        if _is_gradient(value, true_of(name)):
            continue
        other = [f"d{one}" for one in inputs if _is_gradient(value, true_of(one))]
        if other:
            says = f"It returns {other[0]} where d{name} belongs: are two gradients swapped? The order is {order}."
        else:
            says = f"What it returns in the place of d{name} is not d{name}. The order is {order}."
        return [Result("return", diagnosis=says)]
    return []


def _is_gradient(value: Any, true: Array) -> bool:
    if np.shape(value) != true.shape:
        return False
    rounding = 1e-9  # of finite differences: a gradient that is zero, such as that of a bias under a softmax, is noise
    return np.allclose(value, true, rtol=1e-5, atol=1e-5 * abs(true).max() + rounding)


# --- what is printed -------------------------------------------------------------------------------------------------


def _shape(value: Any) -> str:
    return str(np.shape(value)) if hasattr(value, "shape") else type(value).__name__


def _show(results: list[Result], gradients: dict[str, Any]) -> None:
    """The table: a line for each gradient."""
    names = max([len(result.name) for result in results], default=0)
    shapes = {result.name: _shape(gradients.get(result.name)) for result in results}
    width = max(map(len, [*shapes.values(), "shape"]))
    print(f"{'gradient':{max(names, 8)}}   {'shape':{width}}   largest error   verdict")
    for result in results:
        name = f"{result.name:{max(names, 8)}}"
        print(f"{name}   {shapes[result.name]:{width}}   {result.error:13.0e}   {result.word}")


def _show_first_wrong(results: list[Result], steps: Recorded, stopped: str) -> None:
    """The first gradient that is not happy: the lines that it undoes, the worst entry, and what is likely wrong."""
    wrong = [result for result in results if result.word != "happy"]
    if wrong:
        first = wrong[0]
        undone = steps.uses.get(first.name[1:], [])
        print(f"the first wrong gradient is {first.name}; it undoes {'; '.join(undone) or 'the last line'}"[:COLUMNS])
        if first.index:
            index = ", ".join(map(str, first.index))
            print(f"  at [{index}]: yours {first.analytic:.6g}, true {first.numeric:.6g}")
        if first.diagnosis:
            print(folded(first.diagnosis))
    if stopped:
        print(f"the backward pass stopped: {stopped}")


def _show_read(v: Values) -> None:
    """Which values of the forward pass the backward pass has read, and their bytes."""
    if v._read:
        size = ops.nbytes(tuple(v._read.values()))
        text = f"read from the forward pass, so a cache must keep them: {', '.join(v._read)} ({size:,} bytes)"
        print(textwrap.fill(text, COLUMNS, subsequent_indent="    "))

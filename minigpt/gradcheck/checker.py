"""Is this backward pass right? Every entry of every gradient against central differences, in float64.

    results = gradcheck.check(layernorm_forward, layernorm_backward, (x, g, b), {"eps": 1e-5})
    print(gradcheck.table(results))

The backward pass is given a random `dout`. With ones, the rows of a softmax and the outputs of a LayerNorm add up to
constants, whose gradient is 0 whatever the mistake. Stay away from special points too, such as a gain of 1.
"""

import functools
import inspect
import math
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

import numpy as np

from minigpt.device.arrays import Array, array_module, to_numpy
from minigpt.errors import InputError
from minigpt.gradcheck.diagnosis import explain
from minigpt.gradcheck.evidence import Evidence, leaves

EPS = 1e-5
HAPPY, SUSPICIOUS = 1e-7, 1e-4  # relative errors below these are happy and suspicious; the rest is wrong
ZERO = 1e-8  # a gradient as small as this beside what moves it is zero, as far as differences can tell


class Result(NamedTuple):
    """What was found for one gradient, or about "forward", "backward" or "dtype" where a rule is broken.

    error: max|analytic - numeric| / max(max|analytic|, max|numeric|); where the true gradient is zero, the difference
    is measured by the largest of the other gradients and of out * dout. analytic, numeric: at the worst `index`.
    """

    name: str
    error: float = math.inf
    diagnosis: str = ""
    index: tuple[int, ...] = ()
    analytic: float = math.nan
    numeric: float = math.nan

    @property
    def word(self) -> str:
        """happy, suspicious or wrong."""
        if self.error < HAPPY:
            return "happy"
        return "suspicious" if self.error < SUSPICIOUS else "wrong"


def numeric(f: Callable, x: Array, dout=1.0) -> Array:
    """The gradient of sum(f(x) * dout) with respect to x, entry by entry, by central differences.

    f takes x and returns an array or a number. x is float64; its entries are moved in place, and put back.
    """
    gradient = array_module(x).zeros_like(x)
    for i in np.ndindex(x.shape):
        before = x[i].copy()
        x[i] = before + EPS
        up = f(x) * 1.0  # a copy, should f return x itself
        x[i] = before - EPS
        gradient[i] = ((up - f(x)) * dout).sum() / (2 * EPS)
        x[i] = before
    return gradient


class Outcome(NamedTuple):
    """The rules that a pair of passes broke, and what it gave; None where it gave nothing."""

    broken: list[Result]
    out: Array | None = None
    cache: Any = None
    dout: Array | None = None
    gradients: dict[str, Array] | None = None


def check(
    forward: Callable, backward: Callable, args: Iterable, constants: dict | None = None,
    names: Iterable[str] | None = None, seed: int = 0, *, dout=None, reference: Callable | None = None
) -> list[Result]:
    """Check `forward(*args, **constants) -> out, cache` and `backward(dout, cache) -> gradients`, in float64.

    One result for each float array among args, in their order, under the names of forward's parameters unless names
    are given. dout is random unless given. reference: a forward pass known to be right, which `out` is compared with.
    The other rules have a result only where they are broken: there are as many gradients as float arrays; neither
    inputs nor cache are written to; a second backward gives the same; the dtype that comes in goes out.
    Raises InputError where no argument is an array of floats.
    """
    inputs = _named(args, names or inspect.signature(reference or forward).parameters)
    constants = constants or {}
    floats = _floats(inputs)
    if not floats:
        raise InputError("there is nothing to check: give at least one argument that is a NumPy array of floats")
    in_float32 = _try(forward, backward, *_cast((inputs, constants), np.float32), dout, seed)
    inputs, constants = _cast((inputs, constants), np.float64)
    outcome = _try(forward, backward, inputs, constants, dout, seed)
    results = outcome.broken or in_float32.broken
    known = leaves(inputs | constants)
    if outcome.out is not None and reference is not None:
        right = functools.partial(_out, reference, inputs, constants)
        evidence = Evidence(known, constants, "out", {}, right)
        results.append(compare("out", outcome.out, right(), evidence))
    if outcome.gradients is None:
        return results
    known |= leaves({"out": outcome.out, "dout": outcome.dout, "cache": outcome.cache})
    numeric_gradient = functools.partial(_numeric, forward, inputs, constants, dout=outcome.dout)
    true = {name: numeric_gradient(name) for name in floats}
    for name in floats:
        evidence = Evidence(known, constants, name, true, functools.partial(numeric_gradient, name))
        results.append(compare(name, outcome.gradients[name], true[name], evidence))
    return results


def _out(forward, inputs, constants, **changes):
    """The output for inputs and constants by name, some of them changed."""
    now = inputs | constants | changes
    positional = [now.pop(name) for name in inputs]
    return forward(*positional, **now)[0]


def _numeric(forward, inputs, constants, name, *, dout, **changes):
    return numeric(lambda _: _out(forward, inputs, constants, **changes), inputs[name], dout)


def _named(args, names):
    """The arguments by name; those beyond the last name by their number."""
    args = [args] if hasattr(args, "dtype") else list(args)
    names = list(names)
    for number in range(len(names) + 1, len(args) + 1):
        names.append(f"argument {number}")
    return dict(zip(names, args, strict=False))


def _try(forward, backward, inputs, constants, dout, seed):
    """One forward and two backward passes."""
    floats = _floats(inputs)
    before = _copies(inputs | constants)
    pair = _unless_empty(forward, *inputs.values(), **constants)
    if not isinstance(pair, tuple) or len(pair) != 2 or pair[0] is None:
        empty = pair is None or isinstance(pair, tuple)
        says = "It returns nothing yet." if empty else "It must return a pair: out, cache."
        return Outcome(_broken("forward", [says]))
    out, cache = pair
    broken = _broken("forward", _written(before))
    dout = _cotangent(dout, out, floats, seed)

    before = _copies(inputs | constants | {"dout": dout, "cache": cache})
    gradients = [array_module(out).array(gradient) for gradient in _as_list(_unless_empty(backward, dout, cache))]
    flipped = {name: array[::-1] if array.ndim else array for name, array in floats.items()}
    _unless_empty(forward, *(inputs | flipped).values(), **constants)  # it must not change what backward gives
    again = _as_list(_unless_empty(backward, dout, cache))
    says = _written(before)
    if not says and not all(map(_equal, gradients, again)):
        says = ["A second call gives something else: is there chance in it, or state outside the cache?"]
    if len(gradients) != len(floats):
        number = f"{len(gradients)} gradients; expected {len(floats)}, in this order: {', '.join(floats)}"
        says.append(f"It returns {number if gradients else 'nothing yet'}.")
        return Outcome(broken + _broken("backward", says), out, cache, dout)
    gradients = dict(zip(floats, gradients, strict=True))
    broken += _broken("backward", says)
    broken += _broken("dtype", _promoted({"out": out, **gradients}, dout.dtype))
    return Outcome(broken, out, cache, dout, gradients)


def _broken(name, sentences):
    return [Result(name, diagnosis=sentence) for sentence in sentences]


def _cotangent(dout, out, floats, seed):
    """dout, random unless given, as an array of the inputs' dtype on their device."""
    if dout is None:
        dout = np.random.default_rng(seed).standard_normal(np.shape(out))
    inputs = list(floats.values())
    return array_module(*inputs).asarray(dout, inputs[0].dtype)[()]


def _promoted(arrays, dtype):
    """A sentence about each array of another dtype."""
    why = "a NumPy number such as np.sqrt(2) promotes, math.sqrt(2) does not"
    others = {name: array.dtype for name, array in arrays.items() if getattr(array, "dtype", dtype) != dtype}
    return [f"{dtype} goes in, but {name} is {other}: {why}." for name, other in others.items()]


def _unless_empty(function, *args, **constants):
    """What function returns; None where it is a stub that is not filled in yet."""
    try:
        result = function(*args, **constants)
    except NotImplementedError:
        return None
    except (TypeError, AttributeError) as error:
        if "ellipsis" not in str(error):
            raise
        return None  # a line of it is still `x = ...`
    return None if any(part is ... for part in _as_list(result)) else result


def _as_list(gradients):
    """One gradient or several, as a list, without the None of an input that was not given."""
    if not isinstance(gradients, (tuple, list)):
        gradients = [gradients]
    return [gradient for gradient in gradients if gradient is not None]


def _cast(value, dtype):
    """A copy in which every float array is of this dtype."""
    if isinstance(value, dict):
        return {key: _cast(item, dtype) for key, item in value.items()}
    if type(value) in (tuple, list):
        return type(value)(_cast(item, dtype) for item in value)
    return value.astype(dtype) if _is_float(value) else value


def _is_float(value):
    return hasattr(value, "dtype") and value.dtype.kind == "f"


def _floats(inputs):
    return {name: value for name, value in inputs.items() if _is_float(value)}


def _copies(value):
    """The arrays in value, each with a copy, by their paths."""
    return {name: (array, array.copy()) for name, array in leaves(value).items()}


def _written(copies):
    """A sentence about each array that no longer equals its copy."""
    names = [name for name, pair in copies.items() if not _equal(*pair)]
    return [f"It writes into {name}: work on a copy." for name in names]


def _equal(x, y):
    x, y = to_numpy(x), to_numpy(y)
    return x.shape == y.shape and np.allclose(x, y, rtol=1e-9, atol=1e-14, equal_nan=True)


def compare(name: str, mine: Array, true: Array, evidence: Evidence | None = None) -> Result:
    """The result for one gradient, or one output; evidence is what a diagnosis may draw on."""
    mine, true = to_numpy(mine), to_numpy(true)
    evidence = evidence or Evidence({})
    if mine.shape != true.shape:
        return Result(name, diagnosis=explain(mine, true, evidence))
    difference = abs(mine - true)
    worst = np.unravel_index(difference.argmax(), difference.shape)
    size = max(abs(mine).max(), abs(true).max())
    if size <= ZERO * evidence.scale:
        size = evidence.scale
    error = np.nan_to_num(difference[worst] / (size or 1), nan=math.inf)
    index = tuple(int(i) for i in worst)
    result = Result(name, float(error), "", index, float(mine[worst]), float(true[worst]))
    if result.word == "happy":
        return result
    return result._replace(diagnosis=explain(mine, true, evidence))


def check_model(model, ids, targets, *, seed: int = 0, spread: float = 0.3, **options) -> list[Result]:
    """Check every entry of every parameter's gradient of `model.loss(ids, targets, **options)`, in float64.

    model: anything with loss, loss_backward, zero_grad and named_parameters. For the check its parameters are moved off
    where they stand, by normal noise of standard deviation `spread`; afterwards they are put back. options: those of
    loss, such as normalizer, weights and key. One result for each parameter, in order; of the wrong ones, the nearest
    to the loss is explained. The rules of `check` hold here too, and a second backward pass adds to the first.
    """
    parameters = dict(model.named_parameters())
    kept = [(p, p.data, p.grad) for p in parameters.values()]
    rng = np.random.default_rng(seed)
    noise = [rng.standard_normal(p.data.shape) for p in parameters.values()]
    moved = [p.data + spread * array_module(p.data).asarray(n) for p, n in zip(parameters.values(), noise, strict=True)]

    def forward(*arrays, **constants):
        for p, array in zip(parameters.values(), arrays, strict=True):
            p.data = array
        return model.loss(**constants)[0], (arrays, constants)

    def backward(dloss, cache):
        arrays, constants = cache
        forward(*arrays, **constants)
        model.zero_grad()
        for _ in range(2):  # two halves that add up, each with a new cache: a model uses its cache up
            model.loss_backward(model.loss(**constants)[1], dloss / 2)
        return [p.data * 0 if p.grad is None else p.grad for p in parameters.values()]

    constants = {"ids": ids, "targets": targets, **options}
    try:
        results = check(forward, backward, moved, constants, parameters, seed)
    finally:
        for p, data, grad in kept:
            p.data, p.grad = data, grad
    return _nearest_to_the_loss(results, parameters)


def _nearest_to_the_loss(results, parameters):
    """The results, in which only the last of the wrong parameters is explained: others may follow from it."""
    wrong = [result.name for result in results if result.diagnosis and result.name in parameters]
    says = f"It may follow from {wrong[-1]}, which is nearer to the loss." if wrong else ""
    return [result._replace(diagnosis=says) if result.name in wrong[:-1] else result for result in results]


def worst(results: Iterable[Result]) -> Result:
    """The result with the largest error."""
    return max(results, key=lambda result: result.error)


def table(results: Iterable[Result]) -> str:
    """The results as text: a line for each, and below a wrong one the worst entry and what is likely wrong."""
    results = list(results)
    width = max(len(result.name) for result in results)
    lines = []
    for result in results:
        lines.append(f"{result.name:{width}}  {result.error:7.1e}  {result.word}")
        if result.diagnosis and result.index:
            at = ", ".join(map(str, result.index))
            lines.append(f"{'':{width}}  at [{at}]: yours {result.analytic:.6g}, true {result.numeric:.6g}")
        if result.diagnosis:
            lines.append(f"{'':{width}}  {result.diagnosis}")
    return "\n".join(lines)

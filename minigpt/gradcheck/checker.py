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
from minigpt.gradcheck.diagnosis import Evidence, explain, leaves

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
        return "happy" if self.error < HAPPY else "suspicious" if self.error < SUSPICIOUS else "wrong"


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


def check(
    forward: Callable, backward: Callable, args: Iterable, constants: dict | None = None,
    names: Iterable[str] | None = None, seed: int = 0, *, dout=None, reference: Callable | None = None
) -> list[Result]:
    """Check `forward(*args, **constants) -> out, cache` and `backward(dout, cache) -> gradients`, in float64.

    One result for each float array among args, in their order, under the names of forward's parameters unless names
    are given. dout is random unless given. reference: a forward pass known to be right, which `out` is compared with.
    The other rules have a result only where they are broken: there are as many gradients as float arrays; neither
    inputs nor cache are written to; a second backward gives the same; the dtype that comes in goes out.
    """
    args = [args] if hasattr(args, "dtype") else list(args)
    names = list(names or inspect.signature(reference or forward).parameters)
    names += [f"argument {i}" for i in range(len(names) + 1, len(args) + 1)]
    given = dict(zip(names, args, strict=False)), constants or {}
    if not _floats(given[0]):
        raise InputError("there is nothing to check: give at least one argument that is a NumPy array of floats")
    in_float32, *_ = _run(forward, backward, *_cast(given, np.float32), dout, seed)
    inputs, constants = _cast(given, np.float64)
    results, out, cache, dout, gradients = _run(forward, backward, inputs, constants, dout, seed)
    results = results or in_float32
    if out is None:
        return results

    def compute(function=forward, /, **changes):
        now = inputs | constants | changes
        positional = [now.pop(name) for name in inputs]
        return function(*positional, **now)[0]

    known = leaves(inputs | constants)
    if reference is not None:
        evidence = Evidence(known, constants, "out", {}, functools.partial(compute, reference))
        results.append(compare("out", out, compute(reference), evidence))
    if gradients is None:
        return results
    known |= leaves({"out": out, "dout": dout, "cache": cache})
    true = {name: numeric(lambda _: compute(), x, dout) for name, x in _floats(inputs).items()}
    for name, x in _floats(inputs).items():

        def again(dout=dout, x=x, **changes):
            return numeric(lambda _: compute(**changes), x, dout)

        results.append(compare(name, gradients[name], true[name], Evidence(known, constants, name, true, again)))
    return results


def _run(forward, backward, inputs: dict, constants: dict, dout, seed: int) -> tuple:
    """One forward and two backward passes: results for the rules they broke; out, cache, dout, gradients (or None)."""
    floats, changed = _floats(inputs), _watch(inputs | constants)
    xp, dtype = array_module(*floats.values()), next(iter(floats.values())).dtype
    pair = _unless_empty(forward, *inputs.values(), **constants)
    if not isinstance(pair, tuple) or len(pair) != 2 or pair[0] is None:
        empty = pair is None or isinstance(pair, tuple)
        says = "It returns nothing yet." if empty else "It must return a pair: out, cache."
        return [Result("forward", diagnosis=says)], None, None, None, None
    out, cache = pair
    broken = [Result("forward", diagnosis=f"It writes into {name}: work on a copy.") for name in changed()]
    dout = np.random.default_rng(seed).standard_normal(np.shape(out)) if dout is None else dout
    dout = xp.asarray(dout, dtype)[()]

    changed = _watch(inputs | constants | {"dout": dout, "cache": cache})
    gradients = [xp.array(gradient) for gradient in _as_list(_unless_empty(backward, dout, cache))]
    _unless_empty(forward, *(xp.flip(x) if name in floats else x for name, x in inputs.items()), **constants)
    again = _as_list(_unless_empty(backward, dout, cache))  # the other forward pass in between must not matter
    says = [f"It writes into {name}: work on a copy." for name in changed()]
    if not says and not all(map(_equal, gradients, again)):
        says = ["A second call gives something else: is there chance in it, or state outside the cache?"]
    if len(gradients) != len(floats):
        wanted = f"{len(gradients)} gradients; expected {len(floats)}, in this order: {', '.join(floats)}"
        says.append(f"It returns {wanted if gradients else 'nothing yet'}.")
    gradients = dict(zip(floats, gradients, strict=True)) if len(gradients) == len(floats) else None
    broken += [Result("backward", diagnosis=text) for text in says]
    for name, array in {"out": out, **(gradients or {})}.items():
        if (came := getattr(array, "dtype", dtype)) != dtype:
            why = "a NumPy number such as np.sqrt(2) promotes, math.sqrt(2) does not"
            broken.append(Result("dtype", diagnosis=f"{dtype} goes in, but {name} is {came}: {why}."))
    return broken, out, cache, dout, gradients


def _unless_empty(function: Callable, *args, **constants) -> Any:
    """What function returns; None where it is a stub that is not filled in yet."""
    try:
        result = function(*args, **constants)
    except NotImplementedError:
        return None
    except (TypeError, AttributeError) as error:  # a line of it is still `x = ...`
        if "ellipsis" not in str(error):
            raise
        return None
    return None if any(part is ... for part in _as_list(result)) else result


def _as_list(gradients: Any) -> list:
    """One gradient or several, as a list, without the None of an input that was not given."""
    gradients = gradients if isinstance(gradients, (tuple, list)) else [gradients]
    return [gradient for gradient in gradients if gradient is not None]


def _cast(value: Any, dtype) -> Any:
    """A copy in which every float array is of this dtype."""
    if isinstance(value, dict):
        return {key: _cast(item, dtype) for key, item in value.items()}
    if type(value) in (tuple, list):
        return type(value)(_cast(item, dtype) for item in value)
    return value.astype(dtype) if _floats({"": value}) else value


def _floats(inputs: dict) -> dict[str, Array]:
    return {name: x for name, x in inputs.items() if hasattr(x, "dtype") and x.dtype.kind == "f"}


def _watch(value: Any) -> Callable[[], list[str]]:
    """A function that names the arrays in value that have been written to since now."""
    before = {name: (array, array.copy()) for name, array in leaves(value).items()}
    return lambda: [name for name, pair in before.items() if not _equal(*pair)]


def _equal(x: Array, y: Array) -> bool:
    x, y = to_numpy(x), to_numpy(y)
    return x.shape == y.shape and np.allclose(x, y, rtol=1e-9, atol=1e-14, equal_nan=True)


def compare(name: str, mine: Array, true: Array, evidence: Evidence | None = None) -> Result:
    """The result for one gradient, or one output; evidence is what a diagnosis may draw on."""
    mine, true, evidence = to_numpy(mine), to_numpy(true), evidence or Evidence({})
    if mine.shape != true.shape:
        return Result(name, diagnosis=explain(mine, true, evidence))
    difference = abs(mine - true)
    index = tuple(map(int, np.unravel_index(difference.argmax(), difference.shape)))
    largest = max(abs(mine).max(), abs(true).max())
    error = difference[index] / ((evidence.scale if largest <= ZERO * evidence.scale else largest) or 1)
    result = Result(name, float(np.nan_to_num(error, nan=math.inf)), "", index, float(mine[index]), float(true[index]))
    return result if result.word == "happy" else result._replace(diagnosis=explain(mine, true, evidence))


def check_model(model, ids, targets, *, seed: int = 0, spread: float = 0.3, **options) -> list[Result]:
    """Check every entry of every parameter's gradient of `model.loss(ids, targets, **options)`, in float64.

    model: anything with loss, loss_backward, zero_grad and named_parameters. For the check its parameters are moved off
    where they stand, by normal noise of standard deviation `spread`; afterwards they are put back. options: those of
    loss, such as normalizer, weights and key. One result for each parameter, in order; of the wrong ones, the nearest
    to the loss is explained. The rules of `check` hold here too, and a second backward pass adds to the first.
    """
    parameters, rng = dict(model.named_parameters()), np.random.default_rng(seed)
    kept = [(p, p.data, p.grad) for p in parameters.values()]
    moved = [p.data + spread * array_module(p.data).asarray(rng.standard_normal(p.data.shape)) for p, _, _ in kept]

    def forward(*arrays, **constants):
        for p, array in zip(parameters.values(), arrays, strict=True):
            p.data = array
        return model.loss(**constants)[0], (arrays, constants)

    def backward(dloss, cache):  # in two halves that add up, each with a new cache: a model uses it up
        forward(*cache[0], **cache[1])
        model.zero_grad()
        for _ in range(2):
            model.loss_backward(model.loss(**cache[1])[1], dloss / 2)
        return [p.data * 0 if p.grad is None else p.grad for p in parameters.values()]

    try:
        results = check(forward, backward, moved, {"ids": ids, "targets": targets, **options}, parameters, seed)
    finally:
        for p, data, grad in kept:
            p.data, p.grad = data, grad
    wrong = [result.name for result in results if result.diagnosis and result.name in parameters]
    says = f"It may follow from {wrong[-1]}, which is nearer to the loss." if wrong else ""
    return [result._replace(diagnosis=says) if result.name in wrong[:-1] else result for result in results]


def worst(results: Iterable[Result]) -> Result:
    """The result with the largest error."""
    return max(results, key=lambda result: result.error)


def table(results: Iterable[Result]) -> str:
    """The results as text: a line for each, and below a wrong one the worst entry and what is likely wrong."""
    results, lines = list(results), []
    width = max(len(result.name) for result in results)
    for result in results:
        lines.append(f"{result.name:{width}}  {result.error:7.1e}  {result.word}")
        if result.diagnosis and result.index:
            at = f"[{', '.join(map(str, result.index))}]"
            lines.append(f"{'':{width}}  at {at}: yours {result.analytic:.6g}, true {result.numeric:.6g}")
        if result.diagnosis:
            lines.append(f"{'':{width}}  {result.diagnosis}")
    return "\n".join(lines)

"""Is this backward pass right? Every entry of every gradient against central differences, in float64.

    results = gradcheck.check(layernorm_forward, layernorm_backward, (x, g, b), {"eps": 1e-5})
    print(gradcheck.table(results))

The backward pass is given a random `dout`. With ones, the rows of a softmax and the outputs of a LayerNorm add up to
constants, whose gradient is 0 whatever the mistake. Stay away from special points too, such as a gain of 1.
"""

import functools
import math
from collections.abc import Callable, Iterable

import numpy as np

from minigpt.device.arrays import Array, array_module, to_numpy
from minigpt.errors import InputError, check_callable, check_number
from minigpt.gradcheck.arguments import check_arguments, check_float64, check_is_model
from minigpt.gradcheck.diagnosis import explain, only_nearest_to_the_loss
from minigpt.gradcheck.evidence import Evidence, floats_in, is_float, leaves
from minigpt.gradcheck.results import Result
from minigpt.gradcheck.rules import run_pair

EPS = 1e-5  # how far an entry is moved to each side
ZERO = 1e-8  # relative to `Evidence.scale`: a gradient as small as this cannot be told from zero by differences


def numeric(f: Callable, x: Array, dout=1.0) -> Array:
    """The gradient of sum(f(x) * dout) with respect to x, entry by entry: (f(x + eps) - f(x - eps)) / (2 eps).

    f takes x (any shape) and returns an array of the shape of dout, or a number. x is float64; its entries are moved
    in place, and restored, also where f raises. Raises InputError for another x.
    """
    check_callable("f", f)
    check_float64("x", x)
    gradient = array_module(x).zeros_like(x)
    for i in np.ndindex(x.shape):
        before = x[i].copy()
        try:
            x[i] = before + EPS
            up = f(x) * 1.0  # a copy, in case f returns x itself
            x[i] = before - EPS
            difference = up - f(x)
        finally:
            x[i] = before
        gradient[i] = (difference * dout).sum() / (2 * EPS)
    return gradient


def check(
    forward: Callable,
    backward: Callable,
    args: Iterable,
    constants: dict | None = None,
    names: Iterable[str] | None = None,
    seed: int = 0,
    *,
    dout=None,
    reference: Callable | None = None,
) -> list[Result]:
    """Check `forward(*args, **constants) -> out, cache` and `backward(dout, cache) -> gradients`, in float64.

    One result for each float array among args, in their order, under the names of forward's parameters unless names
    are given. dout is random unless given. reference: a forward pass known to be right, which `out` is compared with.
    The other rules have a result only where they are broken: there are as many gradients as float arrays; neither
    inputs nor cache are written to; a second backward gives the same; out and gradients have the dtype of the inputs.
    Raises InputError where no argument is an array of floats, and for arguments of other types.
    """
    args, constants, names = check_arguments(forward, backward, args, constants, names, seed, reference)
    inputs = _named(args, names)
    if not floats_in(inputs):
        raise InputError("there is nothing to check: give at least one argument that is a NumPy array of floats")

    inputs_32, constants_32 = _cast((inputs, constants), np.float32)
    in_float32 = run_pair(forward, backward, inputs_32, constants_32, dout, seed)
    inputs, constants = _cast((inputs, constants), np.float64)
    outcome = run_pair(forward, backward, inputs, constants, dout, seed)
    results = outcome.broken or in_float32.broken
    saved = leaves({"cache": outcome.cache})
    if outcome.out is not None and reference is not None:
        results.append(_compare_out(outcome.out, reference, inputs, constants, saved))
    if outcome.gradients is not None:
        results.extend(_compare_gradients(outcome, forward, inputs, constants, saved))
    return results


# --- comparing with what is right ------------------------------------------------------------------------------------


def _compare_out(out, reference, inputs, constants, saved):
    """The result for the output of a forward pass, beside that of the reference."""
    right = functools.partial(_out, reference, inputs, constants)
    known = leaves(inputs | constants)
    return compare("out", out, right(), Evidence(known, constants, "out", again=right, saved=saved))


def _compare_gradients(outcome, forward, inputs, constants, saved):
    """A result for each gradient."""
    known = leaves(inputs | constants) | leaves({"out": outcome.out, "dout": outcome.dout}) | saved
    numeric_gradient = functools.partial(_numeric, forward, inputs, constants, dout=outcome.dout)
    true = {name: numeric_gradient(name) for name in outcome.gradients}
    results = []
    for name, gradient in outcome.gradients.items():
        evidence = Evidence(known, constants, name, true, functools.partial(numeric_gradient, name), saved)
        results.append(compare(name, gradient, true[name], evidence))
    return results


def _out(forward, inputs, constants, **changes):
    """The output for inputs and constants by name, some of them changed."""
    now = inputs | constants | changes
    positional = [now.pop(name) for name in inputs]
    out, _ = forward(*positional, **now)
    return out


def _numeric(forward, inputs, constants, name, *, dout, **changes):
    """The numeric gradient of one input, whose array is moved in place."""

    def f(_):
        return _out(forward, inputs, constants, **changes)

    return numeric(f, inputs[name], dout)


def compare(name: str, mine: Array, true: Array, evidence: Evidence | None = None) -> Result:
    """The result for `mine`, a gradient or an output, beside `true`, which should have the same shape.

    evidence: what else a diagnosis may compare it with.
    """
    mine = to_numpy(mine)
    true = to_numpy(true)
    evidence = evidence or Evidence({})
    if mine.shape != true.shape:
        return Result(name, diagnosis=explain(mine, true, evidence))

    difference = abs(mine - true)
    worst = np.unravel_index(difference.argmax(), difference.shape)
    size = max(abs(mine).max(), abs(true).max())
    if size <= ZERO * evidence.scale:
        size = evidence.scale
    error = difference[worst] / (size or 1)
    error = np.nan_to_num(error, nan=math.inf)
    index = tuple(map(int, worst))
    result = Result(name, float(error), "", index, float(mine[worst].real), float(true[worst]))
    if result.word == "happy":
        return result
    return result._replace(diagnosis=explain(mine, true, evidence))


def _named(args, names):
    """The arguments by name; those beyond the last name by their number."""
    for number in range(len(names) + 1, len(args) + 1):
        names.append(f"argument {number}")
    return dict(zip(names, args, strict=False))


def _cast(value, dtype):
    """A copy in which every float array is of this dtype."""
    if isinstance(value, dict):
        return {key: _cast(item, dtype) for key, item in value.items()}
    if type(value) in (tuple, list):
        return type(value)(_cast(item, dtype) for item in value)
    return value.astype(dtype) if is_float(value) else value


# --- whole models ----------------------------------------------------------------------------------------------------


def check_model(model, ids: Array, targets: Array, *, seed: int = 0, spread: float = 0.3, **options) -> list[Result]:
    """Check every entry of every parameter's gradient of `model.loss(ids, targets, **options)`, in float64.

    model: an object with loss, loss_backward, zero_grad and named_parameters. ids, targets (B,T) int. For the check
    normal noise of standard deviation `spread` is added to its parameters; afterwards they are restored. options:
    those of loss, such as normalizer, weights and key. One result for each parameter, in order; of the wrong ones, the
    nearest to the loss is explained. The rules of `check` hold here too, and a second backward pass adds to the first.
    Raises InputError for an object without these methods, and for ids and targets that the model refuses.
    """
    check_is_model(model)
    check_number("spread", spread, "a number of 0 or more", least=0)
    parameters = dict(model.named_parameters())
    kept = [(parameter, parameter.data, parameter.grad) for parameter in parameters.values()]
    moved = _moved(parameters, spread, seed)

    def forward(*arrays, **constants):
        for parameter, array in zip(parameters.values(), arrays, strict=True):
            parameter.data = array
        loss, _ = model.loss(**constants)
        return loss, (arrays, constants)

    def backward(dloss, cache):
        arrays, constants = cache
        forward(*arrays, **constants)
        model.zero_grad()
        for _ in range(2):  # two halves that add up, each with a new cache: a backward pass uses its cache up
            _, model_cache = model.loss(**constants)
            model.loss_backward(model_cache, dloss / 2)
        return [_gradient_of(parameter) for parameter in parameters.values()]

    constants = {"ids": ids, "targets": targets, **options}
    try:
        results = check(forward, backward, moved, constants, parameters, seed)
    finally:
        for parameter, data, grad in kept:
            parameter.data = data
            parameter.grad = grad
    return only_nearest_to_the_loss(results, list(parameters))


def _moved(parameters, spread, seed):
    """The arrays of the parameters with noise, in order."""
    rng = np.random.default_rng(seed)
    moved = []
    for parameter in parameters.values():
        noise = rng.standard_normal(parameter.data.shape)
        xp = array_module(parameter.data)
        moved.append(parameter.data + spread * xp.asarray(noise))
    return moved


def _gradient_of(parameter):
    return parameter.data * 0 if parameter.grad is None else parameter.grad

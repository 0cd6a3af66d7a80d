"""The rules that a pair of passes must keep, besides that its gradients are right.

It returns (out, cache), and as many gradients as there are float arrays among its inputs; it writes neither to inputs
nor to cache; a second backward pass gives the same; out and gradients have the dtype of the inputs.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from minigpt.device.arrays import Array, array_module, to_numpy
from minigpt.gradcheck.evidence import floats_in, leaves
from minigpt.gradcheck.results import Result

ANOTHER_TIME = "A second call returns other gradients"


class Outcome(NamedTuple):
    """The rules that a pair of passes broke, and what it returned; None where it returned nothing."""

    broken: list[Result]
    out: Array | None = None
    cache: Any = None
    dout: Array | None = None
    gradients: dict[str, Array] | None = None


def run_pair(forward: Callable, backward: Callable, inputs: dict, constants: dict, dout: Any, seed: int) -> Outcome:
    """Run forward once and backward twice, and note which rules they break.

    inputs, constants: the arguments of forward, by name. dout: the upstream gradient; None draws one from the seed.
    """
    floats = floats_in(inputs)
    before = _copies(inputs | constants)
    pair = _unless_empty(forward, *inputs.values(), **constants)
    problem = _problem_of_a_pair(pair)
    if problem:
        return Outcome(_broken("forward", [problem]))
    out, cache = pair
    broken = _broken("forward", _written(before))
    dout = _cotangent(dout, out, floats, seed)

    before = _copies(inputs | constants | {"dout": dout, "cache": cache})
    xp = array_module(out)
    gradients = [xp.array(gradient) for gradient in _as_list(_unless_empty(backward, dout, cache))]
    _run_with_other_inputs(forward, inputs, constants)
    again = _as_list(_unless_empty(backward, dout, cache))

    problems = _written(before)
    if not problems and not all(map(_equal, gradients, again)):
        problems = [f"{ANOTHER_TIME}: is there chance in it, or state outside the cache?"]
    if len(gradients) != len(floats):
        problems.append(_wrong_number_of_gradients(len(gradients), floats))
        broken += _broken("backward", problems)
        return Outcome(broken, out, cache, dout)
    gradients = dict(zip(floats, gradients, strict=True))
    broken += _broken("backward", problems)
    broken += _broken("dtype", _promoted({"out": out, **gradients}, dout.dtype))
    return Outcome(broken, out, cache, dout, gradients)


def _problem_of_a_pair(pair):
    """What is wrong with the value that a forward pass returned, as a sentence; None where it is (out, cache)."""
    if isinstance(pair, tuple) and len(pair) == 2 and pair[0] is not None:
        return None
    if pair is None or isinstance(pair, tuple):
        return "It returns nothing yet."
    return "It must return a pair: out, cache."


def _run_with_other_inputs(forward, inputs, constants):
    """A forward pass with the float arrays reversed, after which the first cache must still give the same gradients."""
    reversed_inputs = dict(inputs)
    for name, array in floats_in(inputs).items():
        if array.ndim:
            reversed_inputs[name] = array[::-1]
    _unless_empty(forward, *reversed_inputs.values(), **constants)


def _wrong_number_of_gradients(number, floats):
    if number == 0:
        return "It returns nothing yet."
    names = ", ".join(floats)
    return f"It returns {number} gradients; expected {len(floats)}, in this order: {names}."


def _broken(name, sentences):
    return [Result(name, diagnosis=sentence) for sentence in sentences]


def _cotangent(dout, out, floats, seed):
    """dout, random unless given, as an array of the inputs' dtype on their device."""
    if dout is None:
        rng = np.random.default_rng(seed)
        dout = rng.standard_normal(np.shape(out))
    inputs = list(floats.values())
    xp = array_module(*inputs)
    return xp.asarray(dout, inputs[0].dtype)[()]


def _promoted(arrays, dtype):
    """A sentence about each array of another dtype."""
    why = "a NumPy number such as np.sqrt(2) promotes, math.sqrt(2) does not"
    sentences = []
    for name, array in arrays.items():
        other = getattr(array, "dtype", dtype)
        if other != dtype:
            sentences.append(f"{dtype} goes in, but {name} is {other}: {why}.")
    return sentences


def _unless_empty(function, *args, **constants):
    """What function returns; None where it is a stub that is not filled in yet."""
    try:
        result = function(*args, **constants)
    except NotImplementedError:
        return None
    except (TypeError, AttributeError) as error:
        if "ellipsis" in str(error):
            return None  # a line of it is still `x = ...`
        raise
    has_gaps = any(part is ... for part in _as_list(result))
    return None if has_gaps else result


def _copies(value):
    """The arrays in value, each with a copy, by their paths."""
    return {name: (array, array.copy()) for name, array in leaves(value).items()}


def _written(copies):
    """A sentence about each array that no longer equals its copy."""
    sentences = []
    for name, (array, copy) in copies.items():
        if not _equal(array, copy):
            sentences.append(f"It writes into {name}: work on a copy.")
    return sentences


def _equal(x, y):
    x = to_numpy(x)
    y = to_numpy(y)
    return x.shape == y.shape and np.allclose(x, y, rtol=1e-9, atol=1e-14, equal_nan=True)


def _as_list(gradients):
    """One gradient or several, as a list, without the None of an input that was not given."""
    if not isinstance(gradients, (tuple, list)):
        gradients = [gradients]
    return [gradient for gradient in gradients if gradient is not None]

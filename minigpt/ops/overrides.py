"""Overrides: pairs that come from outside the library, such as a learner's file or a class in a test."""

import functools
import inspect
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from minigpt.errors import InputError
from minigpt.ops import shapes

Parameters = Mapping[str, inspect.Parameter]
BY_POSITION = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)


class Entry(NamedTuple):
    """One operation by one implementation.

    backward: None for a function that is no pair, such as `add`. supports(*args, **constants): None, or the reason why
    this call cannot be made here.
    """

    op: str
    implementation: str
    forward: Callable
    backward: Callable | None
    supports: Callable[..., str | None]


class OverrideCache(NamedTuple):
    """The cache of an override: whatever its forward saved, and the backward that understands it."""

    op: str
    saved: Any
    backward: Callable


def entries_of(given: Any, reference: dict[str, Entry], known: dict[str, Callable]) -> dict[str, Entry]:
    """The entries of an object that has pairs as attributes, by the names of their operations.

    reference: the operations that there are. known: forward functions that count as merely imported. Raises InputError
    where the object has no pair, or only half of one.
    """
    name = _title(given)
    entries = {}
    for op in reference:
        forward = getattr(given, f"{op}_forward", None)
        backward = getattr(given, f"{op}_backward", None)
        if forward and backward:
            if forward is not known[op]:
                entries[op] = _entry(reference[op], name, forward, backward)
        elif _is_own(forward, given) or _is_own(backward, given):
            there, missing = ("forward", "backward") if forward else ("backward", "forward")
            raise InputError(f"{name} has {op}_{there} but no {op}_{missing}: an operation is a pair")
    if not entries:
        raise InputError(f"{name} has no pair such as layernorm_forward and layernorm_backward")
    return entries


def _entry(reference: Entry, name: str, forward: Callable, backward: Callable) -> Entry:
    """An override need not know every option of the operation: those that a call does not use are left out."""
    op = reference.op
    assert reference.backward is not None, "an override has pairs"
    n_gradients = len(shapes.of(reference.backward)[1])

    def supports(*args, **constants) -> str | None:
        problem = why_not(forward, reference.forward, args, constants)
        if problem:
            return f"{op}_forward of {name} {problem}"
        return None

    def call(*args, **constants):
        args, constants = as_taken(forward, reference.forward, args, constants)
        result = forward(*args, **constants)
        if result is NotImplemented:
            return result
        if not isinstance(result, tuple) or len(result) != 2:
            raise TypeError(f"{op}_forward returned a {type(result).__name__}: expected the pair (out, cache)")
        out, cache = result
        return out, OverrideCache(op, cache, all_gradients)

    def all_gradients(dout, cache):
        """The gradients, with None for the optional inputs at the end that the override does not know."""
        gradients = backward(dout, cache)
        if n_gradients == 1:
            return gradients
        if hasattr(gradients, "shape"):  # a single one, bare
            gradients = (gradients,)
        if not isinstance(gradients, (tuple, list)):
            return gradients
        return (*gradients, *[None] * (n_gradients - len(gradients)))

    return Entry(op, name, call, all_gradients, supports)


def as_taken(
    forward: Callable,
    reference: Callable,
    args: Sequence[Any],
    constants: dict[str, Any],
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """A call of the reference, (args, constants), as another forward function takes it.

    Inputs that it does not take by position are given by name. An option that it does not know is left out where it
    changes nothing: a rate of dropout does not without a key.
    """
    parameters = _parameters_of(forward)
    of_reference = _parameters_of(reference)
    start = _positions_of(parameters)
    inputs = list(of_reference)[: _positions_of(of_reference)]
    names = inputs[start : len(args)]
    end = start + len(names)
    by_name = dict(zip(names, args[start:end], strict=True))
    given = by_name | constants
    drops = given.get("key") is not None
    options = {}
    for name, value in given.items():
        unused = _is_unused(name, value, of_reference) or (name == "rate" and not drops)
        if _is_known(name, parameters) or not unused:
            options[name] = value
    return (*args[:start], *args[end:]), options


def why_not(
    forward: Callable,
    reference: Callable,
    args: Sequence[Any],
    constants: dict[str, Any],
) -> str | None:
    """What keeps a forward function from a call that the reference takes: "takes no mask"; None where nothing does.

    A call without an optional input, such as the bias of `linear`, is for a function that has a default for it.
    """
    parameters = _parameters_of(forward)
    args, constants = as_taken(forward, reference, args, constants)
    for name in constants:
        if not _is_known(name, parameters):
            return f"takes no {name}"
    for i, parameter in enumerate(parameters.values()):
        is_given = parameter.name in constants or (i < len(args) and args[i] is not None)
        if parameter.kind in BY_POSITION and parameter.default is parameter.empty and not is_given:
            return f"needs {parameter.name}"
    return None


@functools.lru_cache(maxsize=256)
def _parameters_of(function: Callable) -> Parameters:
    """The parameters of a function by name."""
    return inspect.signature(function).parameters


def _positions_of(parameters: Parameters) -> int:
    """How many arguments are taken by position."""
    kinds = [parameter.kind for parameter in parameters.values()]
    if inspect.Parameter.VAR_POSITIONAL in kinds:
        return sys.maxsize
    return sum(kind in BY_POSITION for kind in kinds)


def _is_known(name: str, parameters: Parameters) -> bool:
    """Is there a parameter of this name, or one such as `**options`, which takes every name?"""
    return name in parameters or any(p.kind is p.VAR_KEYWORD for p in parameters.values())


def _is_unused(option: str, value: Any, parameters: Parameters) -> bool:
    """Does this option of a call change nothing? "grad" only saves work."""
    if option == "grad" or value is None:
        return True
    if option not in parameters:
        return False
    return isinstance(value, (int, float, str)) and value == parameters[option].default


def _is_own(function: Callable | None, given: Any) -> bool:
    """Written in this object, and not merely imported into it."""
    home = getattr(given, "__module__", None) or getattr(given, "__name__", None)
    return function is not None and getattr(function, "__module__", None) == home


def _title(given: Any) -> str:
    return getattr(given, "__name__", type(given).__name__)

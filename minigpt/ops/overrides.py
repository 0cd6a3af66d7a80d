"""Overrides: pairs that come from outside the library, such as a learner's file or a class in a test."""

import inspect
import sys
from collections.abc import Callable
from typing import Any, NamedTuple

from minigpt.errors import InputError
from minigpt.ops import shapes


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
    known, takes_any = _parameters_of(forward)
    by_position = _positions_of(forward)
    parameters = inspect.signature(reference.forward).parameters
    defaults = {key: p.default for key, p in parameters.items()}
    inputs = list(parameters)[: _positions_of(reference.forward)]
    n_gradients = len(shapes.of(reference.backward)[1])

    def named(args, constants) -> tuple[tuple, dict]:
        """The call with the inputs that the override does not take by position given by name."""
        names = inputs[by_position : len(args)]
        end = by_position + len(names)
        by_name = dict(zip(names, args[by_position:end], strict=True))
        return (*args[:by_position], *args[end:]), by_name | constants

    def supports(*args, **constants) -> str | None:
        args, constants = named(args, constants)
        for constant, value in constants.items():
            if not takes_any and constant not in known and not _unused(constant, value, defaults):
                return f"{op}_forward of {name} takes no {constant}"
        return None

    def call(*args, **constants):
        args, constants = named(args, constants)
        if not takes_any:
            constants = {key: value for key, value in constants.items() if key in known}
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


def _unused(constant: str, value: Any, defaults: dict[str, Any]) -> bool:
    """Does this option of a call change nothing? "grad" only saves work."""
    if constant == "grad" or value is None:
        return True
    return isinstance(value, (int, float)) and value == defaults.get(constant)


def _parameters_of(function: Callable) -> tuple[set[str], bool]:
    """The names of its parameters, and whether it takes any other by `**`."""
    parameters = inspect.signature(function).parameters
    takes_any = any(p.kind is inspect.Parameter.VAR_KEYWORD for p in parameters.values())
    return set(parameters), takes_any


def _positions_of(function: Callable) -> int:
    """How many arguments it takes by position."""
    kinds = [p.kind for p in inspect.signature(function).parameters.values()]
    if inspect.Parameter.VAR_POSITIONAL in kinds:
        return sys.maxsize
    return sum(kind in (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD) for kind in kinds)


def _is_own(function: Callable | None, given: Any) -> bool:
    """Written in this object, and not merely imported into it."""
    home = getattr(given, "__module__", None) or getattr(given, "__name__", None)
    return function is not None and getattr(function, "__module__", None) == home


def _title(given: Any) -> str:
    return getattr(given, "__name__", type(given).__name__)

"""Are the arguments of a check what they must be? Otherwise one line says what was given, and what to give."""

import inspect
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

from minigpt.errors import InputError, check_callable, check_whole, shown


def check_arguments(
    forward: Callable,
    backward: Callable,
    args: Iterable,
    constants: dict | None,
    names: Iterable[str] | None,
    seed: int,
    reference: Callable | None,
) -> tuple[list, dict, list[str]]:
    """args, constants and names, those of forward's parameters unless they are given. Raises InputError for others."""
    check_callable("forward", forward)
    check_callable("backward", backward)
    if reference is not None:
        check_callable("reference", reference)
    check_whole("seed", seed, "a whole number of 0 or more")
    if hasattr(args, "dtype"):
        args = [args]
    if not isinstance(args, Iterable) or isinstance(args, str):
        raise InputError(f"args are {shown(args)}: give the arguments of forward in a tuple")
    if constants is not None and not isinstance(constants, dict):
        raise InputError(f"constants are {shown(constants)}: give a dictionary, such as {{'eps': 1e-5}}")
    args = list(args)
    if names:
        names = _checked_names(names, len(args))
    else:
        names = list(inspect.signature(reference or forward).parameters)
    return args, constants or {}, names


def _checked_names(names: Any, number: int) -> list[str]:
    if not isinstance(names, Iterable) or isinstance(names, str):
        raise InputError(f"names are {shown(names)}: give a list, one name for each argument")
    names = list(names)
    if len(names) != number or len(set(names)) != number:
        raise InputError(f"names are {shown(names)}: give {number}, one for each argument, and none of them twice")
    return names


def check_float64(name: str, x: Any) -> None:
    """Raises InputError unless x is an array of float64: steps of 1e-5 are lost in any other."""
    if not hasattr(x, "shape") or getattr(x, "dtype", None) != np.float64:
        raise InputError(f"{name} is {shown(x)}: give an array of float64")


def check_is_model(model: Any) -> None:
    """Raises InputError for a class, and for an object that lacks a method of a model."""
    if isinstance(model, type):
        raise InputError(f"model is the class {model.__name__}: give an object of it, {model.__name__}(config)")
    for name in ("loss", "loss_backward", "zero_grad", "named_parameters"):
        if not hasattr(model, name):
            raise InputError(f"model is {shown(model)}, which has no {name}: give a model such as GPT2(config)")

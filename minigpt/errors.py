"""The exception for mistakes of the caller, which tells what was given, what was expected, and what to do; and checks.

A check takes the name of an argument and its value, and raises InputError where the value cannot be used.
"""

import numbers
import os
import reprlib
import sys
from collections.abc import Iterable
from typing import Any, TypeGuard

INFINITY = float("inf")
LARGEST_FLOAT = sys.float_info.max  # whole numbers of Python have no end


class InputError(ValueError):
    """Something given from outside cannot be used: a file, an option, a shape, an id.

    The message is one line and complete without a traceback; the command line prints it and exits with status 2.
    """


class NonFiniteGradient(ArithmeticError):
    """A gradient holds NaN or infinity; `name` is the first such parameter."""

    def __init__(self, name: str):
        super().__init__(f"the gradient of {name} is not finite")
        self.name = name


def shown(value: Any) -> str:
    """A value in a message: short, and on one line; of an array what it holds, and its shape."""
    if isinstance(value, type):
        return f"the class {value.__name__}"
    if hasattr(value, "dtype") and getattr(value, "shape", None):
        return f"an array of {value.dtype} of shape {value.shape}"
    return " ".join(reprlib.repr(value).split())


def is_whole(value: Any) -> TypeGuard[int]:
    """Is this a whole number, of Python or of NumPy? True and False are none."""
    return isinstance(value, numbers.Integral) and not isinstance(value, bool)


def is_number(value: Any) -> TypeGuard[float]:
    """Is this a real number, of Python or of NumPy? True and False are none."""
    return isinstance(value, numbers.Real) and not isinstance(value, bool)


def check_number(
    name: str, value: Any, expected: str, *, least: float = -INFINITY, above: float = -INFINITY, below: float = INFINITY
) -> None:
    """Raises InputError unless value is a number that is at least `least`, above `above` and below `below`.

    name: of the argument; expected: what to give instead, such as "a finite number". NaN is in no range, and neither
    is what no float can hold.
    """
    is_finite = is_number(value) and abs(value) <= LARGEST_FLOAT
    if not is_finite or not (least <= value < below and above < value):
        raise InputError(f"{name} is {shown(value)}: give {expected}")


def check_share(**shares: Any) -> None:
    """Raises InputError for the first of these arguments, by name, that is no number from 0 to 1."""
    for name, value in shares.items():
        if not is_number(value) or not 0 <= value <= 1:
            raise InputError(f"{name} is {shown(value)}: give a share from 0 to 1")


def check_whole(name: str, value: Any, expected: str, least: int = 0, below: float = INFINITY) -> None:
    """Raises InputError unless value is a whole number from `least` up to, but not including, `below`."""
    if not is_whole(value) or not least <= value < below:
        raise InputError(f"{name} is {shown(value)}: give {expected}")


def check_callable(name: str, value: Any) -> None:
    """Raises InputError unless value can be called."""
    if not callable(value):
        raise InputError(f"{name} is {shown(value)}: give a function")


def check_folder(folder: Any) -> None:
    """Raises InputError unless this is a path: a string with something in it, or an object such as pathlib.Path."""
    if not isinstance(folder, (str, os.PathLike)) or folder == "":
        raise InputError(f"folder is {shown(folder)}: give the path of a folder")


def check_known(names: Iterable[str], known: Iterable[str], what: str) -> None:
    """Raises InputError for the first name that is not known, with the names that there are.

    what: what such a name is, as in "GPT2Config has no value".
    """
    known = list(known)
    for name in names:
        if name not in known:
            raise InputError(f"{what} {shown(name)}: there are {', '.join(known)}")


def check_ranges(options, least: int, *names: str) -> None:
    """Raises InputError for one of these options that is below `least`, infinite or not a number. None is none."""
    for name in names:
        value = getattr(options, name)
        if value is not None and not least <= value < float("inf"):
            raise InputError(f"{flag_of(name)} {value}: give {least} or more")


def check_shares(options, *names: str) -> None:
    """Raises InputError for one of these options that is below 0, 1 or more, or not a number. None is none."""
    for name in names:
        value = getattr(options, name)
        if value is not None and not 0 <= value < 1:
            raise InputError(f"{flag_of(name)} {value}: give a share from 0 up to, but not including, 1")


def flag_of(name: str) -> str:
    """How an option is written on the command line: `--top-k` for the field top_k."""
    return f"--{name.replace('_', '-')}"


# --- of optimisers ---------------------------------------------------------------------------------------------------


def named_pairs(named_parameters: Any) -> dict[str, Any]:
    """Pairs (name, parameter) as a dictionary.

    Raises InputError where they are no such pairs, where there are none, and where a name comes twice.
    """
    expected = "give model.named_parameters(), pairs (name, parameter)"
    if not isinstance(named_parameters, Iterable):
        raise InputError(f"named_parameters are {shown(named_parameters)}: {expected}")
    found = {}
    for pair in named_parameters:
        if not _is_named_parameter(pair):
            raise InputError(f"named_parameters hold {shown(pair)}: {expected}")
        name, parameter = pair
        if name in found:
            raise InputError(f"named_parameters hold {name} twice: each parameter is updated once")
        found[name] = parameter
    if not found:
        raise InputError(f"named_parameters hold nothing (a generator can be read only once): {expected}")
    return found


def _is_named_parameter(pair: Any) -> bool:
    if not isinstance(pair, tuple) or len(pair) != 2:
        return False
    return hasattr(pair[1], "data") and hasattr(pair[1], "grad")


def check_betas(betas: Any) -> None:
    """Raises InputError unless these are two numbers from 0 up to, but not including, 1."""
    if not isinstance(betas, (tuple, list)) or len(betas) != 2:
        raise InputError(f"betas are {shown(betas)}: give two numbers, such as (0.9, 0.999)")
    for beta in betas:
        check_number("one of the betas", beta, "a number from 0 up to, but not including, 1", least=0, below=1)


def check_max_norm(max_norm: Any) -> None:
    """Raises InputError unless this is None, or a number of 0 or more."""
    if max_norm is not None:
        check_number("max_norm", max_norm, "a number of 0 or more, or None for no clipping", least=0)

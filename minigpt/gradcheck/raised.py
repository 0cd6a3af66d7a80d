"""An error in one line: what was raised and where, with the shapes of the arrays that stand there.

This file needs the standard library and NumPy only: the process of a learner's file loads it by its path.
"""

import linecache
import re
import traceback

import numpy as np

PRODUCT = re.compile(r"([\w.]+) @ ([\w.]+)")


def described(error: BaseException, hidden: tuple[str, ...]) -> str:
    """What was raised, and the innermost line outside the hidden files, whose names begin so.

    Where shapes do not fit, it names the arrays of that line with their shapes.
    """
    message = message_of(error)
    where = ""
    frame, number = _place_of(error, hidden)
    if frame:
        line = linecache.getline(frame.f_code.co_filename, number).strip()
        where = f" in line {number}, `{line}`"
        if isinstance(error, ValueError):
            message = _about_shapes(message, line, frame.f_locals)
    return f"{type(error).__name__}{where}: {message}"


def message_of(error: BaseException) -> str:
    """The message of an error on one line; empty where its own __str__ raises."""
    try:
        return " ".join(str(error).split())
    except BaseException:
        return "(it has no message that can be shown)"


def _place_of(error, hidden):
    """The innermost frame in a file whose name does not begin so, and its line; (None, 0) where there is none."""
    place = (None, 0)
    for frame, number in traceback.walk_tb(error.__traceback__):
        if not frame.f_code.co_filename.startswith(hidden):
            place = (frame, number)
    return place


def _about_shapes(message, line, variables):
    """The message, with the shapes of the arrays that the line names, and what is likely wrong with them."""
    arrays = _arrays_of(line, variables)
    if not arrays:
        return message
    given = ", ".join(f"{name} {array.shape}" for name, array in arrays.items())
    if "gufunc" in message:
        rule = "In x @ y the last axis of x must be as long as the last but one of y"
        return f"the shapes do not fit: {given}. {rule}: {_transposed_wrongly(line, arrays)}"
    return f"{message}. Here the shapes are {given}.{_lost_axis(arrays)}"


def _arrays_of(line, variables):
    """The arrays that a line names, also as values of an object, `v.x`, by these names."""
    found = {}
    for name in dict.fromkeys(re.findall(r"[^\W\d]\w*(?:\.[^\W\d]\w*)*", line)):
        first, *rest = name.split(".")
        array = variables.get(first)
        values = getattr(array, "_values", None)
        if rest and isinstance(values, dict):
            first = f"{first}.{rest[0]}"
            array = values.get(rest[0])
        if isinstance(array, np.ndarray):
            found[first] = array
    return found


def _transposed_wrongly(line, arrays):
    """Which transpose is missing, is too many, or is not of the last two axes."""
    for left, right in PRODUCT.findall(line):
        for name in (left, right):
            array = arrays.get(name.removesuffix(".T"))
            if name.endswith(".T") and array is not None and array.ndim > 2:
                name = name.removesuffix(".T")
                return f"{name}.T reverses all axes of {name}: which two are to be exchanged?"
        a, b = _matrix(left, arrays), _matrix(right, arrays)
        if not a or not b or a[1] == b[0]:
            continue
        if (right.endswith(".T") and a[1] == b[1]) or (left.endswith(".T") and a[0] == b[0]):
            return f"is a transpose too many in {left} @ {right}?"
        if a[1] == b[1] or a[0] == b[0]:
            return f"is a transpose missing in {left} @ {right}?"
    return "is a transpose missing?"


def _matrix(name, arrays):
    """The lengths of the last two axes of `x` or `x.T`; None for another name."""
    array = arrays.get(name.removesuffix(".T"))
    if array is None or array.ndim < 2:
        return None
    rows, columns = array.shape[-2:]
    return (columns, rows) if name.endswith(".T") else (rows, columns)


def _lost_axis(arrays):
    """A sum or mean over the last axis of another array, which did not keep that axis."""
    for name, array in arrays.items():
        for other, longer in arrays.items():
            if array.ndim and array.shape == longer.shape[:-1]:
                return f" {name} lacks the last axis of {other}: is keepdims=True missing where {name} is computed?"
    return ""

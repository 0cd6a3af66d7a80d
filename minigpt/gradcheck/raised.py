"""An error in one line: what was raised and where, with the shapes of the arrays that stand there.

This file needs the standard library and NumPy only: the process of a learner's file loads it by its path.
"""

import linecache
import re
import traceback

import numpy as np


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
    """The message, with the shapes of the arrays that the line names; for a product also what must fit."""
    shapes = []
    for name in dict.fromkeys(re.findall(r"[^\W\d]\w*", line)):
        if isinstance(variables.get(name), np.ndarray):
            shapes.append(f"{name} {variables[name].shape}")
    if not shapes:
        return message
    given = ", ".join(shapes)
    if "gufunc" not in message:
        return f"{message}. Here the shapes are {given}."
    rule = "In x @ y the last axis of x must be as long as the last but one of y: is a transpose missing?"
    return f"the shapes do not fit: {given}. {rule}"

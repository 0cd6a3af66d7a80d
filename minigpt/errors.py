"""Errors that people read: mistakes of the caller, and what a learner's code raises."""

import traceback
from pathlib import Path

import numpy as np


class InputError(ValueError):
    """Something given from outside cannot be used: a file, an option, a shape, an id.

    The message is one line and complete without a traceback; the command line prints it and exits with status 2.
    """


def check_ranges(options, least: int, *names: str) -> None:
    """Raises InputError for one of these options that is below `least`, infinite or not a number. None is none."""
    for name in names:
        value = getattr(options, name)
        if value is not None and not least <= value < float("inf"):
            raise InputError(f"--{name.replace('_', '-')} {value}: give {least} or more")


def describe(error: BaseException) -> str:
    """What was raised and where, in one line: the innermost line that is neither in this package nor in NumPy."""
    libraries = str(Path(__file__).parent), str(Path(np.__file__).parent)
    frames = traceback.extract_tb(error.__traceback__)
    frames = [frame for frame in frames if not frame.filename.startswith(libraries)]
    where = f" in line {frames[-1].lineno}, `{frames[-1].line}`" if frames else ""
    message = " ".join(str(error).split())
    return f"{type(error).__name__}{where}: {message}"

"""A gap inside a lesson: one line that the reader writes, judged in its cell as a gradient is judged by `lines.check`.

    def your_dx(dout, w):
        return ...


    gap.judge(your_dx, dout, w, expected=numeric(forward, x, dout))

A lesson runs with its gaps open: then the judge only says whose turn it is. Where the name begins with `your_d`, as a
gradient's does, the judge may speak of gradients; of all else it speaks as of an array.
"""

import inspect
import math
import re
from collections.abc import Callable

import numpy as np

from minigpt.device.arrays import Array
from minigpt.gradcheck import compare
from minigpt.gradcheck.evidence import Evidence
from minigpt.gradcheck.judge import HIDDEN
from minigpt.gradcheck.raised import described
from minigpt.learn.lines import folded

GRADIENT = "your_d"  # so begins the name of a function that returns a gradient
OF_GRADIENTS = re.compile("gradient|derivative|slope")  # what is said of a gradient alone
OPEN, RIGHT, NOT_YET = "your turn: replace the ... and run this cell again", "right", "not yet"


def judge(yours: Callable, *args, expected: Array) -> str:
    """Call yours(*args), compare what it returns with `expected`, print a verdict, and return it.

    expected: the right array, or a number, of any shape. The verdict is OPEN where yours returns `...` or None, RIGHT
    where shape and values are right (relative error below 1e-7), and NOT_YET with the worst entry and what is likely
    wrong. An error in yours is told in one line and not raised: the rest of the lesson goes on.
    """
    name = yours.__name__
    try:
        given = yours(*args)
        if given is None or given is ...:
            verdict, why = OPEN, []
        else:
            verdict, why = _compared(name, np.asarray(given), np.asarray(expected), _by_name(yours, args))
    except (TypeError, ValueError, IndexError, KeyError, AttributeError, NameError, ArithmeticError) as error:
        verdict, why = NOT_YET, [described(error, HIDDEN)]
    print(f"{name}: {verdict}")
    for sentence in why:
        print(folded(sentence))
    return verdict


def _by_name(yours: Callable, args: tuple) -> dict[str, Array]:
    """The arrays that it was given, by the names that it gives them."""
    names = inspect.signature(yours).parameters
    return {name: arg for name, arg in zip(names, args, strict=False) if hasattr(arg, "dtype")}


def _compared(name: str, given: Array, expected: Array, known: dict[str, Array]) -> tuple[str, list[str]]:
    """The verdict on an array, and the sentences that say why."""
    if given.dtype.kind not in "biuf":
        return NOT_YET, [f"It holds {given.dtype}, expected real numbers."]
    result = compare(name, given.astype(np.float64), expected.astype(np.float64), Evidence(known))
    if result.word == "happy":
        return RIGHT, []
    why = []
    if result.index or result.error < math.inf:
        index = ", ".join(map(str, result.index))
        place = f"at [{index}]: " if index else ""
        why.append(f"{place}yours {result.analytic:.6g}, expected {result.numeric:.6g}")
    is_meant = name.startswith(GRADIENT) or not OF_GRADIENTS.search(result.diagnosis)
    if result.diagnosis and is_meant and (expected.ndim or given.ndim):  # of two numbers each is a factor of the other
        why.append(result.diagnosis)
    return NOT_YET, why

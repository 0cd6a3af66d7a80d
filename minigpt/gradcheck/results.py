"""What a check found, gradient by gradient, and the table that shows it."""

import math
from collections.abc import Iterable
from typing import NamedTuple

from minigpt.errors import InputError

HAPPY = 1e-7  # a relative error below this is happy
SUSPICIOUS = 1e-4  # from there to below this it is suspicious, and from here on wrong


class Result(NamedTuple):
    """What was found for one gradient, or about "forward", "backward" or "dtype" where a rule is broken.

    error: max|analytic - numeric| / max(max|analytic|, max|numeric|); where the true gradient is zero, the difference
    is measured by the largest of the other gradients and of out * dout. analytic, numeric: at the worst `index`.
    """

    name: str
    error: float = math.inf
    diagnosis: str = ""
    index: tuple[int, ...] = ()  # type: ignore[assignment]  # a place, and not a tuple's method
    analytic: float = math.nan
    numeric: float = math.nan

    @property
    def word(self) -> str:
        """happy, suspicious or wrong."""
        if self.error < HAPPY:
            return "happy"
        if self.error < SUSPICIOUS:
            return "suspicious"
        return "wrong"


def worst(results: Iterable[Result]) -> Result:
    """The result with the largest error. Raises ValueError where there are no results."""
    return max(results, key=lambda result: result.error)


def table(results: Iterable[Result]) -> str:
    """The results as text: a line for each, and below a wrong one the worst entry and what is likely wrong.

    Raises InputError where there are none.
    """
    results = list(results)
    if not results:
        raise InputError("there are no results to show: give those of check or check_model")
    width = max(len(result.name) for result in results)
    indent = " " * width
    lines = []
    for result in results:
        lines.append(f"{result.name:{width}}  {result.error:7.1e}  {result.word}")
        if result.diagnosis and result.index:
            index = ", ".join(map(str, result.index))
            lines.append(f"{indent}  at [{index}]: yours {result.analytic:.6g}, true {result.numeric:.6g}")
        if result.diagnosis:
            lines.append(f"{indent}  {result.diagnosis}")
    return "\n".join(lines)

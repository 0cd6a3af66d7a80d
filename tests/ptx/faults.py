"""What a kernel does wrong, and which thread does it."""

import numpy as np


class Fault(AssertionError):
    """Says which thread does what. The player adds the instruction."""


def blame(threads, lanes, wrong: np.ndarray, why: str):
    """wrong: for each of these lanes, whether it is one to blame. The first is named."""
    lane = threads.numbers(lanes)[np.flatnonzero(wrong)[0]]
    raise Fault(f"{threads.name(lane)}: {why}")

"""Learning-rate schedules: the factor by which the largest learning rate is multiplied.

In each of them x is the share of all updates that have been made already, so the first update is at x = 0 and none is
at x = 1; warmup is the share of the updates during which the factor rises. A share outside 0 to 1 raises InputError.
"""

import math

from minigpt.errors import check_share


def warmup_cosine(x: float, warmup: float) -> float:
    """x/warmup up to x = warmup, then half a cosine wave down to 0 at x = 1 (GPT-1 section 4.1).

    As in OpenAI's code the wave starts at x = 0, not at the end of the warm-up: just after it there is a tiny step
    down.
    """
    check_share(x=x, warmup=warmup)
    if warmup > 0 and x <= warmup:
        return x / warmup
    return 0.5 * (1 + math.cos(math.pi * x))


def warmup_cosine_floor(x: float, warmup: float, floor: float) -> float:
    """x/warmup up to x = warmup, then half a cosine wave that starts there and ends at `floor` (nanoGPT's schedule)."""
    check_share(x=x, warmup=warmup, floor=floor)
    if x < warmup:
        return x / warmup
    angle = math.pi * (x - warmup) / (1 - warmup)
    wave = 0.5 * (1 + math.cos(angle))
    return floor + (1 - floor) * wave


def warmup_linear(x: float, warmup: float) -> float:
    """The warm-up times a straight line from 1 to 0, as in fine-tuning (GPT-1 section 4.1)."""
    return warmup_constant(x, warmup) * (1 - x)


def warmup_constant(x: float, warmup: float) -> float:
    """x/warmup up to x = warmup, then 1."""
    check_share(x=x, warmup=warmup)
    if x < warmup:
        return x / warmup
    return 1.0

"""Learning-rate schedules: functions of the share of the updates already made, so the first update is at x = 0."""

import math


def warmup_cosine(x: float, warmup: float) -> float:
    """x/warmup up to x = warmup, then half a cosine wave down to 0 at x = 1 (GPT-1 section 4.1).

    x, warmup: shares of all updates. As in OpenAI's code the wave starts at x = 0, not at the end of the warm-up: just
    after it there is a tiny step down.
    """
    return x / warmup if warmup > 0 and x <= warmup else 0.5 * (1 + math.cos(math.pi * x))


def warmup_cosine_floor(x: float, warmup: float, floor: float) -> float:
    """x/warmup up to x = warmup, then half a cosine wave that starts there and ends at `floor` (nanoGPT's schedule)."""
    if x < warmup:
        return x / warmup
    return floor + (1 - floor) * 0.5 * (1 + math.cos(math.pi * (x - warmup) / (1 - warmup)))


def warmup_linear(x: float, warmup: float) -> float:
    """The warm-up times a straight line from 1 to 0: (x/warmup or 1) * (1 - x). For fine-tuning (GPT-1 section 4.1)."""
    return (x / warmup if x < warmup else 1.0) * (1 - x)


def warmup_constant(x: float, warmup: float) -> float:
    """x/warmup up to x = warmup, then 1."""
    return x / warmup if x < warmup else 1.0

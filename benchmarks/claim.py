"""What the baseline of `minigpt learn claim` is: the best of these rates and schedules for its small model.

    python benchmarks/claim.py          # minutes on one core; goes on where it was stopped
    python benchmarks/claim.py --show
"""

import argparse
from collections.abc import Callable
from statistics import mean

import machine

from minigpt.device.threads import set_threads
from minigpt.learn.classroom import claim
from minigpt.nn.schedules import warmup_constant, warmup_cosine, warmup_cosine_floor, warmup_linear

NAME = "claim"
STEPS = claim.ClaimOptions.steps
RATES = (3e-3, 6e-3, 1.2e-2)
SEEDS = (0, 1, 2)
SCHEDULES: dict[str, Callable[[float], float]] = {
    "cosine": lambda x: warmup_cosine(x, claim.WARMUP),
    "cosine to a tenth": lambda x: warmup_cosine_floor(x, claim.WARMUP, 0.1),
    "linear": lambda x: warmup_linear(x, claim.WARMUP),
    "constant": lambda x: warmup_constant(x, claim.WARMUP),
}


def loss(schedule: Callable[[float], float], rate: float, seed: int) -> float:
    """The held-out loss of one training."""
    factor = rate / claim.RATE
    change = claim.Change("a schedule", schedule=lambda step, steps: factor * schedule(step / steps))
    return claim.train(claim.corpus(), seed, STEPS, change)


def main() -> None:
    """Measure what is not recorded, and print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--show", action="store_true", help="only print what is recorded")
    options = parser.parse_args()
    set_threads(1)
    for name, schedule in SCHEDULES.items():
        for rate in RATES:
            key = f"{name}, {rate:g}"
            if options.show or key in machine.recorded(NAME):
                continue
            machine.save(NAME, {key: {"nats": mean(loss(schedule, rate, seed) for seed in SEEDS)}}, 1)
    print(machine.table(machine.recorded(NAME), ("nats",)))


if __name__ == "__main__":
    main()

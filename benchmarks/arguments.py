"""What share of a training step is spent on checking the arguments of operations.

    python benchmarks/arguments.py            # half a minute

One step of GPT-2 nano (4 layers, 128 wide, context 64, batch 12) is made, and every call of the checks is written down.
Then these calls are made again, alone, many times. Given are the best time of both and their ratio, so that other work
on the machine does not count; and beside it the median over pairs of steps, with and without checks, in turn.
"""

import statistics
import time

import machine  # noqa: F401 - first: it imports minigpt before NumPy
import numpy as np

from minigpt import GPT2
from minigpt.nn.optim import AdamW
from minigpt.ops.arguments import Arguments
from minigpt.ops.random_keys import Key

METHODS = ("check", "remember", "check_dout")
AS_THEY_ARE = {name: getattr(Arguments, name) for name in METHODS}
PAIRS = 100


def put(functions) -> None:
    """Put these functions in the place of the checks."""
    for name, function in functions.items():
        setattr(Arguments, name, function)


def nothing(*arguments) -> None:
    """Instead of a check."""


def make_step():
    """A function that makes one training step."""
    config = GPT2.Config(vocab_size=512, n_positions=64, n_embd=128, n_layer=4, n_head=4)
    model = GPT2(config)
    optimizer = AdamW(model.named_parameters())
    ids, targets = np.random.default_rng(0).integers(512, size=(2, 12, 64))

    def step():
        model.zero_grad()
        key = Key.of(0, optimizer.t)
        _, cache = model.loss(ids, targets, normalizer=targets.size, key=key)
        model.loss_backward(cache)
        optimizer.step(1e-4, max_norm=1.0)

    return step


def calls_of(step) -> list:
    """The checks of one step: (function, arguments)."""
    calls = []

    def written_down(function):
        def call(*arguments):
            calls.append((function, arguments))
            return function(*arguments)

        return call

    put({name: written_down(function) for name, function in AS_THEY_ARE.items()})
    step()
    put(AS_THEY_ARE)
    return calls


def seconds(function) -> float:
    """How long one call takes."""
    start = time.perf_counter()
    function()
    return time.perf_counter() - start


def main() -> None:
    step = make_step()
    for _ in range(5):
        step()
    calls = calls_of(step)

    def checks():
        for function, arguments in calls:
            function(*arguments)

    of_checks = min(seconds(checks) for _ in range(1000))
    with_checks, without = [], []
    for _ in range(PAIRS):
        put(AS_THEY_ARE)
        with_checks.append(seconds(step))
        put(dict.fromkeys(METHODS, nothing))
        without.append(seconds(step))
    put(AS_THEY_ARE)
    of_step = min(without)
    differences = [a / b - 1 for a, b in zip(with_checks, without, strict=True)]
    print(f"{len(calls)} calls of checks in a step: {1e6 * of_checks:.0f} µs of {1e3 * of_step:.1f} ms")
    of_pairs = statistics.median(differences)
    print(f"share of a step: {of_checks / of_step:.2%} (median of {PAIRS} pairs: {of_pairs:+.2%})")


if __name__ == "__main__":
    main()

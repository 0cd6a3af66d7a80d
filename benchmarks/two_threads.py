"""Why two threads do not make a small step twice as fast: one cause at a time, and what two processes do instead.

    python benchmarks/two_threads.py             # 4 layers of 128 and 6 of 384, about 5 minutes on two cores
    python benchmarks/two_threads.py --quick     # a look at it

The sides, each in processes of its own, in turn:

    one thread       the whole step
    half             half of the batch, one thread
    halves, apart    two processes at once, half of the batch each, that never wait for each other: what the cores can
    halves, threads  the same in two threads of one process: what these share, as Python's lock
    two threads      the whole step, as it is
    BLAS awake       the whole step, where BLAS's own threads stay awake for a while after a product
    two processes    the whole step with its gradients added, as `minigpt train --processes 2` makes it

Beside them: what a hand-over takes, how many there are in a step, and how long only one thread works.
"""

import argparse
import os
import statistics
import threading
import time

import machine
import train_step

from minigpt.device import threads

SHAPES = {"4x128": "4x128, context 64, batch 12", "6x384": "6x384, context 256, batch 8"}
AWAKE = {"OPENBLAS_THREAD_TIMEOUT": "30"}  # 2^30 cycles; minigpt says 4


def half(number: int, given: tuple):
    """A step with half of the batch."""
    config, ids, targets = given
    rows = slice(0, len(ids) // 2)
    return train_step.ours(number, config, ids[rows], targets[rows])


def halves_in_threads(number: int, given: tuple):
    """Two steps at the same time, in two threads of this process, with half of the batch each."""
    steps = [half(1, given), half(1, given)]

    def both():
        other = threading.Thread(target=steps[1])
        other.start()
        steps[0]()
        other.join()

    return both


class AtOnce:
    """Two sides that are called at the same time."""

    def __init__(self, *sides: machine.Apart):
        self.sides = sides

    def __call__(self):
        for side in self.sides:
            side.connection.send("go")
        return [side.connection.recv() for side in self.sides]


def hand_over(number: int, given: tuple):
    """A function that returns the seconds that 100 hand-overs of a short product take, beyond the product's own."""
    import numpy as np

    threads.set_threads(number)
    a = np.ones((number, 96, 96), np.float32)
    out = np.empty_like(a)

    def product(part):
        np.matmul(a[part], a[part], out=out[part])

    def measure() -> float:
        shared = machine.seconds(lambda: threads.share(product, number, work=1 << 30), 100)
        alone = machine.seconds(lambda: product(slice(0, 1)), 100)
        return 100 * (shared - alone)

    return measure


def counted(number: int, given: tuple):
    """A function that makes a step and returns how often work went to other threads, and the seconds beside that."""
    import importlib
    import pkgutil

    from minigpt.ops import fast

    share, spent = threads.share, []

    def watched(body, *sizes, work):
        began = time.perf_counter()
        results = share(body, *sizes, work=work)
        if len(results) > 1:
            spent.append(time.perf_counter() - began)
        return results

    for module in pkgutil.iter_modules(fast.__path__):
        module = importlib.import_module(f"{fast.__name__}.{module.name}")
        if hasattr(module, "share"):
            module.share = watched
    step = train_step.ours(number, *given)

    def measure() -> tuple[int, float]:
        spent.clear()
        seconds = machine.seconds(step)
        return len(spent), seconds - sum(spent)

    return measure


def awake(number: int, given: tuple) -> machine.Apart:
    """The whole step in a process whose BLAS waits long for its next product."""
    before = {name: os.environ.get(name) for name in AWAKE}
    os.environ.update(AWAKE)
    side = machine.Apart(train_step.ours, number, *given)
    for name, value in before.items():
        os.environ.pop(name)
        if value is not None:
            os.environ[name] = value
    return side


def compare(number: int, shape: str, pairs: int, least: float) -> dict[str, dict]:
    """The rows of one shape."""
    given = train_step.inputs(*(train_step.SHAPES | train_step.QUICK)[shape])
    sides = {
        "one thread": machine.Apart(train_step.ours, 1, *given),
        "half": machine.Apart(half, 1, given),
        "halves, apart": AtOnce(machine.Apart(half, 1, given), machine.Apart(half, 1, given)),
        "halves, threads": machine.Apart(halves_in_threads, number, given),
        "two threads": machine.Apart(train_step.ours, number, *given),
        "BLAS awake": awake(number, given),
        "two processes": machine.Apart(train_step.processes, number, *given),
    }
    times = machine.in_turn(sides, pairs, least)
    rows = {name: machine.ratio(taken, times["one thread"]) for name, taken in times.items()}
    of_hand_overs = machine.Apart(hand_over, number, given)
    of_step = machine.Apart(counted, number, given)
    of_step()
    found = [of_step() for _ in range(pairs)]
    rows["a hand-over"] = {"above": statistics.median(of_hand_overs() for _ in range(pairs)) / 100}
    rows["hand-overs of a step"] = {"number": found[0][0]}
    rows["one thread at work"] = {"above": statistics.median(seconds for _, seconds in found)}
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--pairs", type=int, default=9)
    parser.add_argument("--quick", action="store_true", help="one tiny shape, few pairs, no file")
    options = parser.parse_args()
    rows = {}
    for name, shape in {"2x64": "2x64, context 32, batch 4"}.items() if options.quick else SHAPES.items():
        found = compare(2, shape, 2 if options.quick else options.pairs, 0.05 if options.quick else 0.4)
        rows |= {f"{name}: {what}": row for what, row in found.items()}
    print(machine.table(rows, (*machine.RATIO, "number")))
    machine.save("two_threads", rows, 2, options.quick)


if __name__ == "__main__":
    main()

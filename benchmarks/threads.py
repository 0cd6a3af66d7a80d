"""One thread or two: a training step of each size, with one thread, with two, and with as many as the package chooses.

    python benchmarks/threads.py             # from 1 x 16 to GPT-2 small, about 6 minutes on two cores
    python benchmarks/threads.py --busy      # the same beside a process that keeps a core busy
    python benchmarks/threads.py --quick     # a look at it

Each side is a process of its own that imports NumPy before minigpt, as a notebook may: the threads of BLAS stay awake
for a tenth of a second after a product of theirs. They are called in turn; a ratio is a pair's.
"""

import argparse
import os
import subprocess
import sys

import machine
import train_step

from minigpt.device import threads
from minigpt.models import costs

SHAPES = {  # layers, heads, width, positions, vocabulary; and the batch and the length of its texts
    "1x16, context 16, batch 4": ((1, 2, 16, 16, 65), 4, 16),
    "2x64, context 32, batch 4": ((2, 2, 64, 32, 65), 4, 32),
    "2x64, context 64, batch 16": ((2, 2, 64, 64, 512), 16, 64),
    "4x96, context 64, batch 12": ((4, 4, 96, 64, 300), 12, 64),
    "4x128, context 64, batch 12": ((4, 4, 128, 64, 65), 12, 64),
    "6x256, context 128, batch 8": ((6, 4, 256, 128, 512), 8, 128),
    "6x384, context 256, batch 8": ((6, 6, 384, 256, 65), 8, 256),
    "GPT-2 small, context 256, batch 2": ((12, 12, 768, 1024, 50257), 2, 256),
}
QUICK = 4  # shapes


def chosen(config, ids, targets):
    """A step with the threads that `minigpt train` would choose."""
    costs.fit_threads(train_step.GPT2(config, seed=None), ids.size)
    return train_step.ours(threads.threads(), config, ids, targets)


def sides_of(number: int, given: tuple) -> dict[str, machine.Apart]:
    """The three sides of one shape."""
    before = os.environ.pop("OPENBLAS_THREAD_TIMEOUT", None)
    os.environ["OPENBLAS_THREAD_TIMEOUT"] = "26"  # what OpenBLAS takes by itself: 2^26 cycles
    sides = {
        "one thread": machine.Apart(train_step.ours, 1, *given),
        "two threads": machine.Apart(train_step.ours, number, *given),
        "chosen": machine.Apart(chosen, *given),
    }
    os.environ.pop("OPENBLAS_THREAD_TIMEOUT")
    if before is not None:
        os.environ["OPENBLAS_THREAD_TIMEOUT"] = before
    return sides


def main() -> None:
    reader = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    reader.add_argument("--busy", action="store_true", help="beside a process that keeps a core busy")
    reader.add_argument("--quick", action="store_true", help="a look at the smallest sizes: nothing is written")
    options = reader.parse_args()
    number = machine.cores()
    rows = {}
    busy = subprocess.Popen([sys.executable, "-c", train_step.SPIN]) if options.busy else None
    try:
        for shape in list(SHAPES)[: QUICK if options.quick else None]:
            times = machine.in_turn(sides_of(number, train_step.inputs(*SHAPES[shape])), 9, 0.15)
            for name in ("two threads", "chosen"):
                beside = ", beside a busy process" if options.busy else ""
                rows[f"{shape}: {name}{beside}"] = machine.ratio(times[name], times["one thread"])
    finally:
        if busy:
            busy.kill()
            busy.wait()
    print(machine.table(rows, machine.RATIO))
    machine.save("threads", rows, number, options.quick)


if __name__ == "__main__":
    main()

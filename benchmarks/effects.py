"""What each trick of the fast operations is worth: a training step without it, over the step with all of them.

    python benchmarks/effects.py             # two shapes, about 8 minutes on two cores
    python benchmarks/effects.py --quick     # a look at it

All sides make the same step of `train_step.py`, each in a process of its own, in turn. "without fast mlp" has the
reference's mlp in the place of the fast one; a ratio of 1.10 says that the step is then a tenth longer. A range that
includes 1 says that no effect can be seen beside the noise.
"""

import argparse
import os

import machine

SHAPES = {"4x128": "4x128, context 64, batch 12", "6x384": "6x384, context 256, batch 8"}
OPERATIONS = ("linear", "embedding", "layernorm", "mlp", "self_attention", "linear_cross_entropy")
TRICKS = ["all of it", *(f"fast {op}" for op in OPERATIONS), "pieces", "pieces of AdamW", "large pieces"]
TRICKS += ["freed memory that is kept", "BLAS's threads asleep", "threads inside operations", "a second thread"]
LONG = {"OPENBLAS_THREAD_TIMEOUT": "26"}  # 2^26 cycles: OpenBLAS's own default


def step(threads: int, shape: str, without: str):
    """A function that makes one step; the imports come first, since one trick is played by an import."""
    from minigpt.device import threads as device_threads

    if without == "freed memory that is kept":
        device_threads.keep_freed_memory = lambda: None
    import numpy as np
    import train_step

    from minigpt import GPT2, ops
    from minigpt.ops import fast
    from minigpt.ops.fast import adam
    from minigpt.ops.table import table

    sizes, batch, time = (train_step.SHAPES | train_step.QUICK)[shape]
    config = GPT2.Config(**dict(zip(train_step.NAMES, sizes, strict=True)))
    ids, targets = np.random.default_rng(0).integers(config.vocab_size, size=(2, batch, time))
    if without == "all of it":
        ops.use("reference")
    elif without.startswith("fast "):
        op = without.removeprefix("fast ")
        candidates = table._candidates["cpu"]
        candidates[op] = candidates[op][-1:]  # the last one is the reference
    elif without == "pieces":
        fast.pieces.PIECE = adam.PIECE = 1 << 40
    elif without == "pieces of AdamW":
        adam.PIECE = 1 << 40
    elif without == "large pieces":  # instead of pieces that fit into the second-level cache
        fast.pieces.PIECE, adam.PIECE = 1 << 16, 1 << 15
    elif without == "threads inside operations":
        device_threads.SHARED = 1 << 60
    return train_step.ours(1 if without == "a second thread" else threads, config, ids, targets)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--pairs", type=int, default=7)
    parser.add_argument("--threads", type=int, default=machine.cores())
    parser.add_argument("--quick", action="store_true", help="a tiny shape, few pairs, no file")
    options = parser.parse_args()
    rows = {}
    for name, shape in {"2x64": "2x64, context 32, batch 4"}.items() if options.quick else SHAPES.items():
        sides = {}
        for trick in ("", *TRICKS):
            more = LONG if trick == "BLAS's threads asleep" else {}
            before = {key: os.environ.get(key) for key in more}
            os.environ.update(more)
            sides[trick] = machine.Apart(step, options.threads, shape, trick)
            os.environ.update({key: value for key, value in before.items() if value is not None})
        times = machine.in_turn(sides, 2 if options.quick else options.pairs, 0.0 if options.quick else 0.3)
        for trick in TRICKS:
            rows[f"{name} without {trick}"] = machine.ratio(times[trick], times[""])
        del sides
    print(machine.table(rows, machine.RATIO))
    machine.save("effects", rows, options.threads, options.quick)


if __name__ == "__main__":
    main()

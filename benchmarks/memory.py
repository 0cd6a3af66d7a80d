"""Peak memory of a training step of GPT-2 small, against PyTorch.

    python benchmarks/memory.py             # batch 4, context 512; about 3 minutes on two cores
    python benchmarks/memory.py --quick     # a look at it, with a small model

Each side is a process of its own that makes two steps (forward, backward, AdamW; the moments exist from the first on).
Counted is the most memory that was resident at once, minus the same for a process that only imports what it needs.
"""

import argparse
import subprocess
import sys
from pathlib import Path

import machine
import numpy as np

SIDES = ("minigpt", "minigpt --checkpoint-blocks", "PyTorch eager")
SMALL = {"n_layer": 4, "n_head": 4, "n_embd": 128, "vocab_size": 5000}


def step_of_minigpt(config, ids, targets, checkpoint_blocks: bool):
    """A function that makes one step with our model."""
    from minigpt import GPT2
    from minigpt.nn.optim import AdamW

    model = GPT2(config)
    model.checkpoint_blocks, optimizer = checkpoint_blocks, AdamW(model.named_parameters())

    def step():
        model.zero_grad()
        _, cache = model.loss(ids, targets)
        model.loss_backward(cache)
        optimizer.step(1e-4)

    return step


def step_of_torch(config, ids, targets):
    """The same with PyTorch."""
    import torch
    from torch_gpt import GPT, adamw

    model = GPT(config)
    optimizer, ids, targets = adamw(model, 1e-4), torch.from_numpy(ids), torch.from_numpy(targets)

    def step():
        optimizer.zero_grad(set_to_none=True)
        model(ids, targets).backward()
        optimizer.step()

    return step


def peak() -> int:
    """The most bytes that were resident at once in this process."""
    status = Path("/proc/self/status")
    if status.is_file():
        line = next(line for line in status.read_text(encoding="utf-8").splitlines() if line.startswith("VmHWM"))
        return 1024 * int(line.split()[1])
    import resource

    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)


def measure(side: str, steps: int, threads: int, quick: bool) -> None:
    """Make so many steps of one side, and print the peak. This runs in a process of its own."""
    from minigpt import GPT2
    from minigpt.device.threads import set_threads

    if side == "PyTorch eager":
        import torch
        import torch_gpt  # noqa: F401

        torch.set_num_threads(threads)
    set_threads(threads)
    if steps:
        batch, time = (2, 128) if quick else (4, 512)
        config = GPT2.Config(**(SMALL if quick else {}))
        ids, targets = np.random.default_rng(0).integers(config.vocab_size, size=(2, batch, time))
        ours = side != "PyTorch eager"
        step = step_of_minigpt(config, ids, targets, side != SIDES[0]) if ours else step_of_torch(config, ids, targets)
        for _ in range(steps):
            step()
    print(peak())


def ask(side: str, steps: int, options) -> int:
    """The peak of a new process."""
    command = [sys.executable, __file__, "--side", side, "--steps", str(steps), "--threads", str(options.threads)]
    command += ["--quick"] if options.quick else []
    return int(subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--threads", type=int, default=machine.cores())
    parser.add_argument("--quick", action="store_true", help="a small model, no file")
    parser.add_argument("--side", choices=SIDES, help=argparse.SUPPRESS)
    parser.add_argument("--steps", type=int, help=argparse.SUPPRESS)
    options = parser.parse_args()
    machine.require("torch")
    if options.side:
        return measure(options.side, options.steps, options.threads, options.quick)
    rows = {}
    for side in SIDES:
        imports, whole = ask(side, 0, options), ask(side, 2, options)
        rows[side] = {"imports MB": imports / 2**20, "peak MB": whole / 2**20, "step MB": (whole - imports) / 2**20}
    for row in rows.values():
        row["/ PyTorch"] = row["step MB"] / rows["PyTorch eager"]["step MB"]
    print(machine.table(rows, ("imports MB", "peak MB", "step MB", "/ PyTorch")))
    machine.save("memory", rows, options.threads, options.quick)


if __name__ == "__main__":
    main()

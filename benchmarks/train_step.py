"""One training step of GPT-2 (forward, backward, AdamW) against PyTorch, and against its own matrix products alone.

    python benchmarks/train_step.py             # three shapes against PyTorch, about 25 minutes on two cores
    python benchmarks/train_step.py --beside    # a step beside a process that keeps a core busy, against alone
    python benchmarks/train_step.py --growth    # how our step grows, one size at a time
    python benchmarks/train_step.py --quick     # a look at it

All sides, each in a process of its own, start from the same weights and see the same batch; their losses are compared.
The floor is the time of the products of the linear layers, of the head and of the attention over all T x T, forward and
backward, and of nothing else: NumPy's, on the same threads, given to them by BLAS or by the rows, whichever is faster.
PyTorch / floor is the ceiling: what a step could gain on PyTorch if it cost no more than these products. "processes"
are those of `minigpt train --processes`, one for each core. No dropout, no clipping.
"""

import argparse
import functools
import statistics
import subprocess
import sys

import machine
import numpy as np

from minigpt import GPT2
from minigpt.device.parallel import ALONE, Ranks
from minigpt.device.threads import set_threads, share
from minigpt.nn.optim import AdamW

SHAPES = {  # and the batch; the last has GPT-2's 1,024 positions and is given 256
    "4x128, context 64, batch 12": ((4, 4, 128, 64, 65), 12, 64),
    "6x384, context 256, batch 8": ((6, 6, 384, 256, 65), 8, 256),
    "GPT-2 small, context 256, batch 2": ((12, 12, 768, 1024, 50257), 2, 256),
}
QUICK = {"2x64, context 32, batch 4": ((2, 2, 64, 32, 65), 4, 32)}
NAMES = ("n_layer", "n_head", "n_embd", "n_positions", "vocab_size")
LR = 1e-4


def ours(threads: int, config, ids, targets, ranks: Ranks = ALONE):
    """A function that makes one step with our model and returns the loss. ranks: processes that share the batch."""
    set_threads(threads)
    model = GPT2(config)
    optimizer = AdamW(model.named_parameters())
    rows = ranks.rows(len(ids))

    def step() -> float:
        model.zero_grad()
        loss, cache = model.loss(ids[rows], targets[rows], normalizer=targets.size)
        model.loss_backward(cache)
        ranks.sum(parameter.grad for parameter in model.parameters())
        optimizer.step(LR)
        return ranks.total(loss)

    return step


def processes(size: int, config, ids, targets):
    """The same with `size` processes of one thread each, as `minigpt train --processes` has them."""
    return machine.in_processes(size, lambda ranks: ours(1, config, ids, targets, ranks))


def theirs(threads: int, config, ids, targets, compiled: bool):
    """The same with PyTorch."""
    import torch
    from torch_gpt import GPT, adamw

    torch.set_num_threads(threads)
    model = GPT.like(GPT2(config))
    optimizer, run = adamw(model, LR), torch.compile(model) if compiled else model
    ids, targets = torch.from_numpy(ids), torch.from_numpy(targets)

    def step() -> float:
        optimizer.zero_grad(set_to_none=True)
        loss = run(ids, targets)
        loss.backward()
        optimizer.step()
        return loss.item()

    return step


def floor(threads: int, config, batch: int, time: int, by_rows: bool):
    """A function that makes the products of one step, and nothing else."""
    set_threads(threads)
    rng, n, c = np.random.default_rng(0), batch * time, config.n_embd

    @functools.cache
    def array(*shape):
        return rng.standard_normal(shape, dtype=np.float32)

    products = []

    def add(a, b):
        products.append((a, b, np.empty((*a.shape[:-1], b.shape[-1]), np.float32)))

    def linear(x, w, dout):  # out, dx, dw
        add(x, w), add(dout, w.T), add(x.T, dout)

    for inputs, outputs in ((c, 3 * c), (c, c), (c, 4 * c), (4 * c, c)):
        linear(array(n, inputs), array(inputs, outputs), array(n, outputs))
    heads, d = batch * config.n_head, c // config.n_head
    q, p = array(heads, time, d), array(heads, time, time)
    for left, right in 2 * [(q, q.swapaxes(-1, -2)), (p, q), (p.swapaxes(-1, -2), q)]:  # s, out, dv; dp, dq, dk
        add(left, right)
    layer, products = products, []
    linear(array(n, c), array(config.vocab_size, c).T, array(n, config.vocab_size))
    work = layer * config.n_layer + products

    def multiply(a, b, out):
        all_threads = functools.partial(share, work=1 << 30)
        if by_rows and a.ndim == 2:
            all_threads(lambda i: np.matmul(a[i], b, out=out[i]), len(a))
        elif a.ndim == 3:
            all_threads(lambda i: np.matmul(a[i], b[i], out=out[i]), len(a))
        else:
            np.matmul(a, b, out=out)

    def multiply_all():
        for a, b, out in work:
            multiply(a, b, out)

    return multiply_all


def inputs(sizes, batch: int, time: int) -> tuple:
    """The configuration of a shape, and a batch of it."""
    config = GPT2.Config(**dict(zip(NAMES, sizes, strict=True)))
    ids, targets = np.random.default_rng(0).integers(config.vocab_size, size=(2, batch, time))
    return config, ids, targets


def sides_of(threads: int, given: tuple) -> dict:
    """Our step and PyTorch's; they compute the same losses."""
    sides = {"minigpt": machine.Apart(ours, threads, *given)}
    for how in ("eager", "compiled"):
        sides[f"PyTorch {how}"] = machine.Apart(theirs, threads, *given, how == "compiled")
    losses = {name: [step() for _ in range(3)] for name, step in sides.items()}
    if max(abs(np.subtract(losses["minigpt"], other)).max() for other in losses.values()) > 1e-3:
        raise SystemExit(f"the sides do not compute the same: {losses}")
    return sides


RATIOS = [
    ("PyTorch eager", "minigpt"), ("PyTorch compiled", "minigpt"), ("minigpt", "floor"), ("PyTorch eager", "floor"),
    ("PyTorch eager", "processes"), ("processes", "floor"),
]  # fmt: skip


def compare(threads: int, sizes, batch: int, time: int, pairs: int, least: float) -> tuple[dict[str, dict], list]:
    """A row for each ratio, in seconds; and the seconds of our steps."""
    given = inputs(sizes, batch, time)
    sides = sides_of(threads, given)
    for who in ("BLAS", "rows"):
        sides[f"floor by {who}"] = machine.Apart(floor, threads, given[0], batch, time, who == "rows")
    times = machine.in_turn(sides, pairs, least)
    times["floor"] = min((times.pop(f"floor by {who}") for who in ("BLAS", "rows")), key=statistics.median)
    sides.clear()
    if threads > 1:  # apart: while one of several processes waits, PyTorch's threads may stall
        alone = {"processes": machine.Apart(processes, threads, *given)}
        times |= machine.in_turn(alone, pairs, least)
    rows = {}
    for above, below in RATIOS:
        if {above, below} <= times.keys():
            rows[f"{above} / {below}"] = machine.ratio(times[above], times[below])
    return rows, times["minigpt"]


SPIN = "while True: pass"


def beside(threads: int, sizes, batch: int, time: int, pairs: int, least: float) -> dict[str, dict]:
    """Each side's step beside a process that keeps a core busy, over the same step alone."""
    given = inputs(sizes, batch, time)
    builds = {"minigpt": (ours, ()), "processes": (processes, ()), "PyTorch eager": (theirs, (False,))}
    rows = {}
    for name, (build, more) in builds.items():
        side = {name: machine.Apart(build, threads, *given, *more)}
        alone = machine.in_turn(side, pairs, least)[name]
        spinning = subprocess.Popen([sys.executable, "-c", SPIN])
        try:
            there = machine.in_turn(side, pairs, least)[name]
        finally:
            spinning.kill()
            spinning.wait()
        side.clear()
        rows[f"{name} beside a busy process / alone"] = machine.ratio(there, alone)
    return rows


def growth(threads: int, pairs: int, quick: bool) -> dict:
    """Our step when one size after the other is doubled."""
    usual = {"n_layer": 4, "n_head": 4, "n_embd": 128, "n_positions": 64, "vocab_size": 256, "batch": 8}
    values = {
        "batch": (4, 8, 16, 32, 64), "n_layer": (2, 4, 8, 16), "n_embd": (64, 128, 256, 512, 1024),
        "vocab_size": (256, 1024, 4096, 16384, 65536), "n_positions": (32, 64, 128, 256, 512, 1024),
    }  # fmt: skip
    rows, rng = {}, np.random.default_rng(0)
    for name, sizes in values.items():
        for size in sizes[: 2 if quick else None]:
            given = usual | {name: size}
            batch = given.pop("batch")
            config = GPT2.Config(**given)
            ids, targets = rng.integers(config.vocab_size, size=(2, batch, config.n_positions))
            taken = machine.in_turn({"minigpt": ours(threads, config, ids, targets)}, pairs, 0.1)["minigpt"]
            row = {"seconds": statistics.median(taken), "tokens": ids.size}
            rows[f"growth, {name} {size}"] = row | {"per token": row["seconds"] / row["tokens"]}
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", default="", metavar="NAME", help="shapes whose name begins so")
    parser.add_argument("--pairs", type=int, default=9)
    parser.add_argument("--threads", type=int, default=machine.cores())
    parser.add_argument("--beside", action="store_true", help="only beside a busy process, against alone")
    parser.add_argument("--growth", action="store_true", help="only how our step grows")
    parser.add_argument("--quick", action="store_true", help="one tiny shape, few pairs, no file")
    options = parser.parse_args()
    pairs, rows = 2 if options.quick else options.pairs, {}
    least = 0.05 if options.quick else 0.5
    shapes = {name: shape for name, shape in SHAPES.items() if name.startswith(options.only)}
    columns = machine.RATIO
    if options.growth:
        rows, columns = growth(options.threads, pairs, options.quick), ("seconds", "tokens", "per token")
    elif options.beside:
        machine.require("torch")
        for name, shape in shapes.items():
            found = beside(options.threads, *shape, pairs, least)
            rows |= {f"{name}: {what}": row for what, row in found.items()}
    else:
        machine.require("torch")
        for name, shape in (QUICK if options.quick else shapes).items():
            ours_takes = {}
            for threads in {1, options.threads}:
                found, ours_takes[threads] = compare(threads, *shape, pairs, least)
                shown = f"{name}, one thread" if threads == 1 else name
                rows |= {f"{shown}: {what}": row for what, row in found.items()}
            if options.threads > 1:
                rows[f"{name}: one thread / all"] = machine.ratio(ours_takes[1], ours_takes[options.threads])
    print(machine.table(rows, columns))
    machine.save("train_step", rows, options.threads, options.quick)


if __name__ == "__main__":
    main()

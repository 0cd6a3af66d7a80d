"""A whole training run, validation included, against the same loop in PyTorch: nanoGPT's laptop shape.

    python benchmarks/run.py --data input.txt             # 7 pairs of 2,000 steps, about 40 minutes on two cores
    python benchmarks/run.py --data input.txt --quick     # a look at it: 20 steps
    python benchmarks/run.py --data input.txt --compile   # against torch.compile too

GPT-2 with 4 layers, 4 heads, width 128 and context 64, on batches of 12 windows of characters (input.txt is
tinyshakespeare); AdamW and nanoGPT's schedule; no dropout. Ours is `minigpt train` itself: it also reads the text,
keeps the best model and everything to go on from, and writes samples. "processes" is the same with
`--processes`, one for each core. PyTorch starts from the same weights, sees the
same batches, and judges itself as often, on the same windows of the whole validation split; it keeps nothing.
"""

import argparse
import contextlib
import io
import tempfile
from dataclasses import replace
from pathlib import Path

import machine
import numpy as np

from minigpt import GPT2, data
from minigpt.device.parallel import ALONE, Ranks
from minigpt.device.threads import set_threads
from minigpt.jobs.pretrain import PretrainOptions, loop, prepare_on, rate

SHAPE = {"model": "gpt2", "layers": 4, "heads": 4, "embd": 128, "context": 64, "batch": 12, "tokenizer": "char"}
SCHEDULE = {"lr": 1e-3, "min_lr": 1e-4, "warmup": 100, "beta2": 0.99, "weight_decay": 0.1, "clip": 1.0, "dropout": 0.0}


def ours(threads: int, options: PretrainOptions, ranks: Ranks = ALONE):
    """A function that is `minigpt train`, in a folder that is thrown away; it returns the last validation loss."""
    set_threads(threads)

    def run() -> float:
        with thrown_away(options, ranks) as job, contextlib.redirect_stderr(io.StringIO()):
            loop(job)
            return job.run.rows[-1]["val_loss"]

    return run


def processes(size: int, options: PretrainOptions):
    """The same in so many processes of one thread."""
    return machine.in_processes(size, lambda ranks: ours(1, options, ranks))


def theirs(threads: int, options: PretrainOptions, compiled: bool):
    """The same run with PyTorch; the function returns the loss over the whole validation split at its end."""
    import torch
    from torch_gpt import GPT, adamw

    torch.set_num_threads(threads)
    with thrown_away(options) as job:
        options, config = job.options, job.model.config

    def run() -> float:
        model = GPT.like(GPT2(config, seed=options.seed))
        call = torch.compile(model, dynamic=False) if compiled else model
        optimizer = adamw(model, options.lr, (0.9, options.beta2), options.weight_decay)

        @torch.no_grad()
        def evaluate() -> float:
            total, count = 0.0, 0
            for ids, targets in data.windows(job.valid, config.n_positions, options.batch):
                pair = (torch.from_numpy(np.asarray(a, np.int64)) for a in (ids, targets))
                whole = ids.shape == (options.batch, config.n_positions)  # others would be compiled anew
                total += (call if whole else model)(*pair, reduction="sum").item()
                count += int((targets >= 0).sum())
            return total / count

        evaluate()
        for step in range(options.steps):
            for group in optimizer.param_groups:
                group["lr"] = rate(options, step)
            ids, targets = data.batch(job.train, options.batch, config.n_positions, options.seed, step)
            optimizer.zero_grad(set_to_none=True)
            call(*(torch.from_numpy(np.asarray(a, np.int64)) for a in (ids, targets))).backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), options.clip)
            optimizer.step()
            if (step + 1) % options.eval_every == 0 or step + 1 == options.steps:
                loss = evaluate()
        return loss

    return run


@contextlib.contextmanager
def thrown_away(options: PretrainOptions, ranks: Ranks = ALONE):
    """The job that these options make, in a folder that is gone afterwards."""
    with tempfile.TemporaryDirectory() as folder, contextlib.redirect_stdout(io.StringIO()):
        out = ranks.gather(str(Path(folder) / "run"))[0]
        yield prepare_on(ranks, replace(options, out=out))
        ranks.gather(None)  # no process needs the folder any more


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", required=True, metavar="FILE", help="the text of tinyshakespeare")
    parser.add_argument("--steps", type=int, default=2000)
    parser.add_argument("--pairs", type=int, default=7)
    parser.add_argument("--threads", type=int, default=machine.cores())
    parser.add_argument("--compile", action="store_true", help="against torch.compile too")
    parser.add_argument("--quick", action="store_true", help="20 steps, one pair, no file")
    options = parser.parse_args()
    machine.require("torch")
    steps, pairs = (20, 1) if options.quick else (options.steps, options.pairs)
    given = PretrainOptions(**SHAPE, **SCHEDULE | {"warmup": min(100, steps)}, data=options.data, steps=steps,
                    eval_every=steps if options.quick else None)  # fmt: skip
    sides = {"minigpt": machine.Apart(ours, options.threads, given)}
    if options.threads > 1:
        sides["processes"] = machine.Apart(processes, options.threads, given)
    for how in ("eager", "compiled") if options.compile else ("eager",):
        sides[f"PyTorch {how}"] = machine.Apart(theirs, options.threads, given, how == "compiled")
    times = machine.in_turn(sides, pairs)
    losses = {name: side.results[-1] for name, side in sides.items()}
    rows = {}
    for name in sides:
        if name.startswith("PyTorch"):
            for side in sides.keys() & {"minigpt", "processes"}:
                rows[f"{steps} steps: {side} / {name}"] = machine.ratio(times[side], times[name])
    rows |= {f"{steps} steps: validation loss of {name}": {"loss": loss} for name, loss in losses.items()}
    print(machine.table(rows, (*machine.RATIO, "loss")))
    machine.save("run", rows, options.threads, options.quick)


if __name__ == "__main__":
    main()

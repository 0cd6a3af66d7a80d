"""The training runs of the README, each to its end: validation loss over the whole split, and minutes.

    python benchmarks/pretraining.py --shakespeare input.txt        # all of them, about 40 minutes on two cores
    python benchmarks/pretraining.py --only stories

`input.txt` is the 1.1 MB of tinyshakespeare. Each run is the command line of the README, in a process of its own.
"""

import argparse
import csv
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import machine

LAPTOP = "--tokenizer char --layers 4 --heads 4 --embd 128 --context 64 --batch 12 --steps 2000 --dropout 0".split()
NANOGPT = "--lr 1e-3 --min-lr 1e-4 --warmup 100 --beta2 0.99 --weight-decay 0.1".split()


def runs(shakespeare: str | None) -> dict[str, list[str]]:
    """Name: arguments of `minigpt train`."""
    found = {
        "stories": ["--data", "stories"],
        "stories of variety 1": "--data stories:10000:1 --layers 2 --heads 4 --embd 128 --context 128 --batch 6 "
        "--steps 1600 --lr 4e-3 --warmup 160 --init-std 0.02 --beta2 0.99 --align 1".split(),
        "pydocs": ["--data", "pydocs", "--tokenizer", "bpe:4096"],
    }
    if shakespeare:
        text = ["--data", shakespeare, *LAPTOP]
        for seed in map(str, range(3)):
            found[f"tinyshakespeare, gpt1, seed {seed}"] = [*text, "--seed", seed]
            found[f"tinyshakespeare, gpt2, seed {seed}"] = [*text, "--model", "gpt2", "--seed", seed]
            found[f"tinyshakespeare, gpt2, nanoGPT's schedule, seed {seed}"] = [
                *text, "--model", "gpt2", *NANOGPT, "--seed", seed
            ]  # fmt: skip
    return found


def measure(arguments: list[str], threads: int) -> dict:
    """Train; returns the best validation loss, in nats per token, and the minutes from start to end."""
    with tempfile.TemporaryDirectory() as folder:
        options = ["--threads", str(threads), "--out", f"{folder}/run"]
        command = [sys.executable, "-m", "minigpt", "train", *arguments, *options]
        started = time.perf_counter()
        subprocess.run(command, check=True)
        minutes = (time.perf_counter() - started) / 60
        with (Path(folder) / "run" / "loss.csv").open(encoding="utf-8") as file:
            losses = [float(row["val_loss"]) for row in csv.DictReader(file) if row["val_loss"]]
    return {"first": losses[0], "best": min(losses), "last": losses[-1], "minutes": minutes}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--shakespeare", metavar="FILE", help="the text of tinyshakespeare")
    parser.add_argument("--only", metavar="NAME", default="", help="runs whose name begins so")
    parser.add_argument("--threads", type=int, default=machine.cores())
    options = parser.parse_args()
    rows = {}
    for name, arguments in runs(options.shakespeare).items():
        if name.startswith(options.only):
            rows[name] = {"arguments": " ".join(arguments).replace(str(options.shakespeare), "FILE")}
            rows[name] |= measure(arguments, options.threads)
    columns = ("first", "best", "last", "minutes")
    print(machine.table(rows, columns))
    machine.save("pretraining", rows, options.threads)


if __name__ == "__main__":
    main()

"""How does a small model learn to tell covered words? Windows, covering and rate, settled by trials on the stories.

    python benchmarks/masked.py           # about 20 minutes on one core; goes on where it was stopped
    python benchmarks/masked.py --quick   # 20 updates of one row, no file
    python benchmarks/masked.py --show    # the table of what is recorded

All rows see as many tokens: 1,600 updates of 768. Their exam is the same within a length of window: held-out windows
with 15 % of the tokens covered, all by the mask. GPT-1 tells the same tokens from what stands before them;
nothing is covered for it.
"""

import argparse
import time
from typing import NamedTuple

import machine
import numpy as np

from minigpt import data, models, ops
from minigpt.data.objectives import masked
from minigpt.device.threads import set_threads
from minigpt.jobs.pretrain import PretrainOptions, prepare, rate, update

TOKENS, UPDATES = 768, 1600  # of an update; of a row
EXAM = 0.15  # of the tokens are covered in the exam
COLUMNS = ("model", "window", "covered", "rate", "accuracy", "loss", "seconds")


class Trial(NamedTuple):
    """One row: the model, the tokens of a window, which part is covered, and the highest rate (None: the usual one)."""

    model: str
    window: int
    covered: float | None
    rate: float | None = None

    @property
    def name(self) -> str:
        """Under which it is recorded."""
        covered = "" if self.covered is None else f", {self.covered:.0%} covered"
        of_rate = "" if self.rate is None else f", rate {self.rate:g}"
        return f"{self.model}, window {self.window}{covered}{of_rate}"


TRIALS = (
    Trial("roberta", 64, 0.15),
    Trial("roberta", 64, 0.30),
    Trial("roberta", 64, 0.45),
    Trial("roberta", 32, 0.15),
    Trial("roberta", 32, 0.30),
    Trial("roberta", 32, 0.45),
    Trial("roberta", 32, 0.30, 1e-3),
    Trial("roberta", 32, 0.30, 4e-3),
    Trial("roberta", 128, 0.30),
    Trial("gpt1", 64, None),
    Trial("gpt1", 32, None),
)


def run(trial: Trial, updates: int = UPDATES) -> dict:
    """Train one row and examine it -> its accuracy (0 to 1), its loss (nats) and its seconds."""
    options = PretrainOptions(
        model=trial.model, data="stories", tokenizer="bpe:1024", layers=2, heads=4, embd=128, context=trial.window,
        batch=TOKENS // trial.window, steps=updates, mask_rate=trial.covered, lr=trial.rate, out="runs/masked-trial",
    )  # fmt: skip
    job = prepare(options)
    started = time.perf_counter()
    for job.step in range(updates):
        update(job, rate(job.options, job.step))
    seconds = time.perf_counter() - started
    accuracy, loss = examine(job)
    return {"rate": job.options.lr, "accuracy": accuracy, "loss": loss, "seconds": seconds}


def examine(job) -> tuple[float, float]:
    """-> the share of the covered tokens that the model tells, and its mean loss there"""
    sees_all = models.card(job.options.model).mask_rate is not None
    vocab_size = job.model.config.vocab_size
    cover = masked(0, vocab_size, EXAM)
    right = count = total = 0
    for number, windows in enumerate(data.whole_windows(job.valid, job.options.context, 48)):
        covered = cover(windows, np.random.default_rng([1, number])).targets != ops.IGNORED
        covered[:, 0] = False  # before the first token there is nothing
        ids = windows[:, :-1].astype(np.int64)
        if sees_all:
            seen = np.where(covered, job.text.ids["_mask_"], ids)
            logits, _ = job.model.forward(seen, grad=False)
        else:
            logits, _ = job.model.forward(ids, grad=False)
            logits = np.roll(logits, 1, axis=1)
        found = logits[covered]
        targets = ids[covered]
        right += int((found.argmax(axis=-1) == targets).sum())
        loss, _ = ops.cross_entropy_forward(found, targets, normalizer=1)
        total += float(loss)
        count += len(targets)
    return right / count, total / count


def show() -> None:
    """Print the recorded rows as a table."""
    rows = machine.recorded("masked")
    print("| " + " | ".join(COLUMNS) + " |")
    print("|---" * len(COLUMNS) + "|")
    for trial in TRIALS:
        if trial.name in rows:
            row = rows[trial.name]
            covered = "" if trial.covered is None else f"{trial.covered:.0%}"
            print(f"| {trial.model} | {trial.window} | {covered} | {row['rate']:.1e} | {row['accuracy']:.1%} "
                  f"| {row['loss']:.2f} | {row['seconds']:.0f} |")  # fmt: skip


def main() -> None:
    """Run what is not recorded."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="20 updates of one row, no file")
    parser.add_argument("--show", action="store_true", help="print what is recorded")
    options = parser.parse_args()
    set_threads(1)
    if options.show:
        show()
        return
    if options.quick:
        print(run(TRIALS[0], updates=20))
        return
    done = machine.recorded("masked")
    for trial in TRIALS:
        if trial.name not in done:
            row = run(trial)
            found = f"accuracy {row['accuracy']:.1%}, loss {row['loss']:.2f}, {row['seconds']:.0f} s"
            print(f"{trial.name}: {found}", flush=True)
            machine.save("masked", {trial.name: row}, 1)


if __name__ == "__main__":
    main()

"""What pre-training is worth (GPT-1, table 5 and figure 2, left): the reference model, fine-tuned for six tasks.

    python benchmarks/transfer.py               # five seeds, some hours on two cores; goes on where it was stopped
    python benchmarks/transfer.py --tasks endings --seeds 2
    python benchmarks/transfer.py --show         # the table of what is recorded

There is one pre-trained model, as GPT-1 was one. A seed draws the labelled examples, the new head's weights, the
sequence of the batches and dropout; all rows of a seed share them. The recipe (epochs, rate, labels) is the same for
all rows of a task, and was chosen by validation scores of seed 100, which is not among the seeds. The epoch is chosen
by validation too. The test examples are judged once.

Each job is one process with one thread. Scores are 100 x accuracy, F1 of "same", or Matthews' correlation.
"""

import argparse
import json
import math
import multiprocessing
import statistics
import time
from collections import Counter
from collections.abc import Callable
from itertools import combinations
from typing import NamedTuple

import machine
import numpy as np

from minigpt import models
from minigpt.data.examples import Example
from minigpt.data.input_transformations import SPECIAL
from minigpt.data.stories import tasks
from minigpt.device.threads import set_threads
from minigpt.evaluation import metrics
from minigpt.jobs import finetune
from minigpt.learn import reference
from minigpt.models.classifier import Classifier, transfer


class Recipe(NamedTuple):
    """How a task is learnt: the number of labelled examples, how often they are read, the highest rate."""

    labels: int
    epochs: int
    rate: float


RECIPES = {
    "sentiment": Recipe(240, 3, 5e-4),
    "acceptability": Recipe(4000, 3, 5e-4),
    "continuation": Recipe(1600, 3, 5e-4),
    "similarity": Recipe(3000, 3, 5e-4),
    "cloze": Recipe(800, 3, 5e-4),
    "endings": Recipe(800, 3, 5e-4),
}
BATCH = 16
ROWS = {  # of table 5: how many layers are taken over (None: all; -1: nothing), the weight of the auxiliary loss
    "full": (None, 0.5),
    "no auxiliary loss": (None, 0.0),
    "no pre-training": (-1, 0.5),
}
LONGER = {"no pre-training (12 epochs)": (-1, 0.5)}  # are three epochs too few for a new model?
LAYERS = {"0 layers": (0, 0.5), "2 layers": (2, 0.5), "4 layers": (4, 0.5)}  # of figure 2
CURVES = ("sentiment", "cloze")  # the tasks of these rows
FEW_LABELS = ("sentiment", "cloze")  # the tasks of the rows with more epochs, and without the auxiliary loss
ANSWERS = ("continuation", "cloze", "endings")  # tasks with an answer that can be judged without the text
N_VALID, N_TEST = 200, 1000
T_95 = {2: 12.706, 3: 4.303, 4: 3.182, 5: 2.776, 6: 2.571, 8: 2.365, 10: 2.262}  # Student's t, n - 1 degrees of freedom


class Job(NamedTuple):
    """One number of the table."""

    task: str
    row: str
    seed: int

    @property
    def name(self) -> str:
        """Under which it is recorded."""
        return f"{self.task}, {self.row}, seed {self.seed}"


def run(job: Job) -> tuple[Job, dict]:
    """Fine-tune once, and judge the test examples."""
    started = time.perf_counter()
    recipe = RECIPES[job.task]
    if job.row in LONGER:
        recipe = recipe._replace(epochs=4 * recipe.epochs)
    layers, lm_weight = (ROWS | LONGER | LAYERS)[job.row]
    body, text = models.open_both(reference.folder())
    text = text.with_special(SPECIAL)
    task = tasks.TASKS[job.task]

    def encode(examples: list[Example]) -> finetune.Data:
        return finetune.encode(examples, task, text, body.config.n_positions)

    options = finetune.FinetuneOptions(
        model="", task=job.task, train="", lm_weight=lm_weight, epochs=recipe.epochs, batch=BATCH, lr=recipe.rate
    )
    classifier = Classifier(transfer(body, len(SPECIAL), layers, seed=job.seed), task, seed=job.seed)
    train = tasks.examples(job.task, recipe.labels, "train", job.seed)
    valid = tasks.examples(job.task, N_VALID, "valid")
    test = tasks.examples(job.task, N_TEST, "test")
    best = finetune.tune(classifier, encode(train), encode(valid), options, job.seed)
    points = {"points": 100 * finetune.evaluate(classifier, encode(test)).score, "valid": 100 * best.score}
    if job.task in ANSWERS:
        points["with another text"] = 100 * finetune.evaluate(classifier, encode(with_another_text(test))).score
    points["minutes"] = (time.perf_counter() - started) / 60
    return job, points | recipe._asdict()


def with_another_text(examples: list[Example]) -> list[Example]:
    """The same answers and labels, each behind the text of the next example. If the score stays, no text was read."""
    changed = []
    for example, other in zip(examples, examples[1:] + examples[:1], strict=True):
        changed.append(Example((other.texts[0], *example.texts[1:]), example.label, example.choices))
    return changed


def baselines(name: str, seed: int) -> dict[str, float]:
    """Points on test of what reads no sentence: the best constant answer, and logistic regressions on counts.

    One counts all words; one, where a task has an answer, all pairs of words of the answer, without the text.
    """
    task = tasks.TASKS[name]
    train = tasks.examples(name, RECIPES[name].labels, "train", seed)
    test = tasks.examples(name, N_TEST, "test")
    labels = np.array([example.label for example in train])
    right = np.array([example.label for example in test])
    constant = metrics.best_constant(task, labels, right)[1]
    points = {"constant": 100 * constant}
    kinds = {"bag of words": words_of}
    if name in ANSWERS:
        kinds["pairs of the answer"] = pairs_of_the_answer
    for kind, things_of in kinds.items():
        predicted = regression(train, test, things_of)
        points[kind] = 100 * metrics.judge(task, predicted, right)
    return points


def words_of(example: Example) -> Counter:
    """How often each word is in each text; of a choice: how much more often the second candidate has it."""
    if example.choices:
        first, second = (Counter(choice.lower().split()) for choice in example.choices)
        second.subtract(first)
        return second
    counts = Counter()
    for field, text in enumerate(example.texts):
        counts.update((field, word) for word in text.lower().split())
    return counts


def pairs_of_the_answer(example: Example) -> Counter:
    """The pairs of words of the last text; of a choice: those of the second candidate, less those of the first."""
    one, two = example.choices or ("", example.texts[-1])
    first, second = (Counter(combinations(sorted(set(answer.lower().split())), 2)) for answer in (one, two))
    second.subtract(first)
    return second


def regression(train: list[Example], test: list[Example], things_of: Callable[[Example], Counter]) -> np.ndarray:
    """Answers to the test examples, by a logistic regression on counts: 500 steps of gradient descent."""
    vocabulary: dict = {}
    for example in train:
        for thing in things_of(example):
            vocabulary.setdefault(thing, len(vocabulary))

    def features(examples: list[Example]) -> np.ndarray:
        counts = np.zeros((len(examples), len(vocabulary) + 1), np.float32)
        counts[:, -1] = 1
        for row, example in enumerate(examples):
            for thing, n in things_of(example).items():
                if thing in vocabulary:
                    counts[row, vocabulary[thing]] = n
        return counts

    x, y = features(train), np.array([example.label for example in train])
    w = np.zeros(x.shape[1], np.float32)
    for _ in range(500):
        p = 1 / (1 + np.exp(-np.clip(x @ w, -30, 30)))
        w -= 0.5 * (x.T @ (p - y) / len(y) + 1e-3 * w)
    return (features(test) @ w > 0).astype(int)


def wanted(names: list[str], seeds: int) -> list[Job]:
    """All jobs, the most telling ones first."""
    jobs = []
    for row in ("full", "no pre-training", *LONGER, "no auxiliary loss", *LAYERS):
        if row in LAYERS:
            names_of_row = CURVES
        elif row in LONGER or row == "no auxiliary loss":
            names_of_row = FEW_LABELS
        else:
            names_of_row = tuple(RECIPES)
        jobs += [Job(name, row, seed) for seed in range(seeds) for name in names if name in names_of_row]
    return jobs


def recorded() -> dict[str, dict]:
    """What is measured already."""
    path = machine.RESULTS / "transfer.json"
    return json.loads(path.read_text(encoding="utf-8"))["rows"] if path.is_file() else {}


def mean_and_half(values: list[float]) -> tuple[float, float]:
    """The mean over seeds, and half of its 95 % interval (Student's t)."""
    mean = statistics.mean(values)
    if len(values) < 2:
        return mean, math.nan
    return mean, T_95[len(values)] * statistics.stdev(values) / math.sqrt(len(values))


def show(rows: dict[str, dict]) -> None:
    """The table: points with their intervals, and the paired difference to the row without pre-training."""
    names = [name for name in RECIPES if any(key.startswith(f"{name}, ") for key in rows)]
    print(" " * 18 + "".join(f"{name:>16}" for name in names))
    points: dict[tuple[str, str], dict[int, float]] = {}
    for key, row in rows.items():
        task, kind, seed = key.split(", ")
        points.setdefault((kind, task), {})[int(seed.removeprefix("seed "))] = row["points"]
    for kind in dict.fromkeys(kind for kind, _ in points):
        cells = []
        for name in names:
            values = list(points.get((kind, name), {}).values())
            mean, half = mean_and_half(values) if values else (math.nan, math.nan)
            cells.append(f"{mean:8.1f} ±{half:5.1f}" if values else "")
        print(f"{kind:18}" + "".join(f"{cell:>16}" for cell in cells))
    for name in names:
        full, fresh = points.get(("full", name), {}), points.get(("no pre-training", name), {})
        both = sorted(full.keys() & fresh.keys())
        if both:
            mean, half = mean_and_half([full[seed] - fresh[seed] for seed in both])
            print(f"{name}: pre-training is worth {mean:+.1f} ± {half:.1f} points ({len(both)} seeds)")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--workers", type=int, default=machine.cores())
    parser.add_argument("--tasks", nargs="+", default=list(RECIPES), choices=RECIPES)
    parser.add_argument("--show", action="store_true", help="only print what is recorded")
    options = parser.parse_args()
    if options.show:
        return show(recorded())
    for name in options.tasks:
        for seed in range(options.seeds):
            for kind, score in baselines(name, seed).items():
                key = f"{name}, {kind}, seed {seed}"
                if key not in recorded():
                    machine.save("transfer", {key: {"points": score}}, 1)
    todo = [job for job in wanted(options.tasks, options.seeds) if job.name not in recorded()]
    with multiprocessing.get_context("spawn").Pool(options.workers, set_threads, (1,)) as pool:
        for job, found in pool.imap_unordered(run, todo):
            print(f"{job.name}: {found['points']:.1f} on test, {found['minutes']:.1f} minutes", flush=True)
            machine.save("transfer", {job.name: found}, 1)
    show(recorded())


if __name__ == "__main__":
    main()

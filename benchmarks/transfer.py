"""GPT-1's analyses (section 5: figure 2, table 5) on the story world: what transfers, and from where.

    python benchmarks/transfer.py                     # three seeds, under 30 minutes on two cores
    python benchmarks/transfer.py --seeds 1 --quick   # a look at it, in a few minutes

For each seed a GPT-1 and an LSTM are pre-trained on the same stories. While they learn, their zero-shot scores are
taken; then they are fine-tuned on six tasks: with the auxiliary loss and without, without pre-training, and with some
of the layers only. Table and curves go to `results/transfer.json`, and as pictures to `results/transfer_*.png`.

Every job is one process with one thread. Scores are 100 x accuracy, F1 or Matthews' correlation, on the test split.
"""

import argparse
import functools
import json
import multiprocessing
import statistics
import tempfile
import time
from dataclasses import replace
from pathlib import Path

import machine
import numpy as np

from minigpt import load_tokenizer, open_model, plot
from minigpt.data.input_transformations import SPECIAL
from minigpt.data.stories import tasks
from minigpt.device.threads import set_threads
from minigpt.evaluation import metrics
from minigpt.evaluation.zero_shot import (
    acceptability_scores,
    best_threshold,
    choice_scores,
    pronoun_scores,
    sentiment_scores,
)
from minigpt.jobs import finetune, pretrain
from minigpt.models.classifier import Classifier, transfer
from minigpt.plot import plt

VARIETY = 1
PRETRAINING = pretrain.PretrainOptions(
    layers=2, heads=4, embd=128, context=128, batch=12, steps=1600, lr=4e-3, beta2=0.99, align=1.0, eval_every=1600,
    warmup=160, init_std=0.02, data=f"stories:10000:{VARIETY}", tokenizer="bpe:1500",
)  # fmt: skip
# 256 cells; 466,496 weights, and the GPT-1 has 520,064
LSTM = {"model": "lstm", "layers": None, "heads": None, "embd": 96, "lr": 8e-3, "init_std": None}
STATES = (0, 100, 200, 400, 800, 1600)  # the updates of pre-training after which zero-shot scores are taken
ROWS = {  # of table 5: the pre-trained model, layers taken over (None: all), weight of the auxiliary loss
    "full": ("gpt1", None, 0.5),
    "no auxiliary LM": ("gpt1", None, 0.0),
    "no pre-training": ("gpt1", -1, 0.5),
    "LSTM": ("lstm", None, 0.5),
}
LAYERS = (0, 1)  # beside -1 and all, which the table has, for these tasks:
CURVES = ("acceptability", "endings")
LABELS = ("sentiment", (100, 200, 400, 800))  # of this task's labels, so many: what is pre-training worth in labels?
TUNING = {"epochs": 5, "batch": 16, "lr": 2e-3}
# With 800 labels every model solves sentiment, and a task that all solve tells nothing; so it has fewer. The others
# have as many as half an hour allows.
TRAIN = {"acceptability": 800, "sentiment": 200, "entailment": 400, "similarity": 800, "endings": 800, "pronouns": 600}
SIZES = {"valid": 200, "test": 600}


def pretrain(model: str, seed: int, folder: str, quick: bool) -> dict:
    """Train a model on the stories, and keep its states; returns its losses and what it can do unasked, at each."""
    kept = Path(folder, f"{model}-{seed}.json")
    if kept.is_file():
        return json.loads(kept.read_text(encoding="utf-8"))
    options = replace(PRETRAINING, seed=seed, out=f"{folder}/{model}-{seed}", steps=200 if quick else PRETRAINING.steps)
    started = time.perf_counter()
    job = pretrain.prepare(replace(options, **LSTM) if model == "lstm" else options)
    starts = job.starts[1][: len(job.starts[1]) // 5]  # the loss over a fifth of the stories is sure enough
    job.valid, job.starts = job.valid[: starts[-1] + 1], (job.starts[0], starts[:-1])
    found = {}
    for step in [step for step in STATES if step <= options.steps]:
        pretrain.loop(job, lambda step=step: job.step >= step)
        loss = pretrain.evaluate(job.model, job.valid, 12, job.starts[1])
        found[str(step)] = {"loss": loss} | zero_shot(job.model, job.text)
    learnt = {"states": found, "minutes": (time.perf_counter() - started) / 60}
    kept.write_text(json.dumps(learnt), encoding="utf-8")
    return learnt


@functools.cache
def examples(name: str, split: str, n: int) -> list:
    """Of a task; every job of a process takes the same ones."""
    return tasks.examples(name, n, split, variety=VARIETY)


@functools.cache
def encoded(name: str, split: str, n: int, model: str) -> finetune.Data:
    """The examples of a task as sequences. The tokenizer is that of every model: all have learnt the same stories."""
    text = load_tokenizer(model).with_special(SPECIAL)
    return finetune.encode(examples(name, split, n), tasks.TASKS[name], text, PRETRAINING.context)


def zero_shot(model, text, n: int = 240) -> dict[str, float]:
    """The four heuristics of GPT-1's section 5, in points."""
    data = {name: examples(name, "valid", n) for name in tasks.TASKS}
    labels = {name: np.array([example.label for example in examples]) for name, examples in data.items()}
    texts = {name: [example.texts[0] for example in examples] for name, examples in data.items()}
    scores = acceptability_scores(model, text, texts["acceptability"])
    third = n // 3  # the threshold is chosen on these, and judged on the others
    above = scores > best_threshold(scores[:third], labels["acceptability"][:third])
    found = {"acceptability": metrics.matthews(above[third:].astype(int), labels["acceptability"][third:])}
    asked = [one + tasks.prompt(one) for one in texts["sentiment"]]
    answers = {"sentiment": sentiment_scores(model, text, asked, ("sad", "happy"), prompt=""),
               "endings": choice_scores(model, text, data["endings"]),
               "pronouns": pronoun_scores(model, text, data["pronouns"])}  # fmt: skip
    found |= {name: metrics.accuracy(p.argmax(axis=1), labels[name]) for name, p in answers.items()}
    return {name: 100 * value for name, value in found.items()}


def tune(name: str, row: str, n_labels: int, seed: int, folder: str, quick: bool) -> float:
    """Fine-tune for a task, a row of the table or a number of layers; returns the points on test."""
    model, layers, lm_weight = ROWS.get(row) or ("gpt1", int(row), 0.5)
    pretrained, task = open_model(f"{folder}/{model}-{seed}"), tasks.TASKS[name]
    sizes = {"train": n_labels} | SIZES
    data = {split: encoded(name, split, n // 10 if quick else n, f"{folder}/{model}-0") for split, n in sizes.items()}
    options = finetune.FinetuneOptions(model="", task=name, train="", lm_weight=lm_weight, **TUNING)
    classifier = Classifier(transfer(pretrained, len(SPECIAL), layers, seed=seed), task, seed=seed)
    finetune.tune(classifier, data["train"], data["valid"], options, seed)
    return 100 * finetune.evaluate(classifier, data["test"]).score


def run(job: tuple) -> tuple:
    """(job, what it found); a job is (function, its arguments)."""
    function, *arguments = job
    return job, {"pretrain": pretrain, "tune": tune}[function](*arguments)


def spawned(workers: int):
    """Processes side by side, each with one thread."""
    return multiprocessing.get_context("spawn").Pool(workers, set_threads, (1,))


def study(seeds: int, workers: int, quick: bool, folder: str) -> dict:
    """Everything, in processes side by side: what was learnt, and the points of every task and row, seed by seed."""
    rows = dict.fromkeys(ROWS, tasks.TASKS) | {str(n): CURVES for n in LAYERS}
    asked = [(name, row, TRAIN[name]) for row in rows for name in rows[row]]
    few = [(LABELS[0], row, n) for row in ("full", "no pre-training") for n in LABELS[1]]
    with spawned(workers) as pool:
        first = [("pretrain", model, seed, folder, quick) for model in ("lstm", "gpt1") for seed in range(seeds)]
        learnt = {f"{model} {seed}": found for (_, model, seed, *_), found in pool.imap_unordered(run, first)}
        second = [("tune", *one, seed, folder, quick) for seed in range(seeds) for one in dict.fromkeys(asked + few)]
        found = {}
        for (_, name, row, n, seed, *_), points in pool.imap_unordered(run, second):
            found[name, row, n, seed] = points
            print(f"{row:16} {name:14} {n:4} labels, seed {seed}: {points:5.1f}", flush=True)

    def points(name, row, n):
        return [found[name, row, n, seed] for seed in range(seeds)]

    table = {row: {name: points(name, row, TRAIN[name]) for name in names} for row, names in rows.items()}
    curves = {row: {str(n): points(name, row, n) for name, other, n in few if other == row} for _, row, _ in few}
    return {"labels": TRAIN, "pretraining": learnt, "points": table, "by labels": {"task": LABELS[0]} | curves}


def summary(points: dict) -> dict[str, dict]:
    """Rows for the table: the mean over seeds of each task and of all, and the deviation of the last."""
    rows = {}
    for row, scores in points.items():
        name = f"{row} layers" if row.isdecimal() else row
        rows[name] = {task: statistics.mean(values) for task, values in scores.items()}
        averages = [statistics.mean(column) for column in zip(*scores.values(), strict=True)]
        rows[name] |= {"average": statistics.mean(averages)}
        rows[name] |= {"deviation": statistics.stdev(averages) if len(averages) > 1 else 0.0}
    return rows


def draw(found: dict) -> None:
    """The two curves of figure 2, and that of the labels."""
    n_layer, points = PRETRAINING.layers, found["points"]
    by_layers = [(layers, points[row]) for layers, row in ((-1, "no pre-training"), *((i, str(i)) for i in LAYERS),
                                                           (n_layer, "full"))]  # fmt: skip
    figure, axes = plt.subplots()
    for name in CURVES:
        values = np.array([scores[name] for _, scores in by_layers])
        axes.errorbar([n for n, _ in by_layers], values.mean(axis=1), values.std(axis=1), label=name, capsize=3)
    labels = ["nothing", "embeddings", *(f"and {i} layer{'s' * (i > 1)}" for i in range(1, n_layer + 1))]
    axes.set_xticks(range(-1, n_layer + 1), labels)
    axes.set(title="what a fine-tuned model began with", ylabel="points on test, mean and deviation of the seeds")
    axes.legend()
    plot.save(figure, "transfer_layers.png", machine.RESULTS)
    figure, panels = plt.subplots(1, 2, figsize=(9, 4), sharey=True)
    for axes, model in zip(panels, ("gpt1", "lstm"), strict=True):
        runs = [one["states"] for name, one in found["pretraining"].items() if name.startswith(model)]
        for name in [key for key in runs[0]["0"] if key != "loss"]:
            values = np.array([[states[step][name] for step in runs[0]] for states in runs])
            axes.plot([int(step) for step in runs[0]], values.mean(axis=0), "o-", label=name, markersize=3)
        axes.set(title=model, xlabel="updates of pre-training", ylabel="points, unasked")
    panels[0].legend()
    plot.save(figure, "transfer_zeroshot.png", machine.RESULTS)
    figure, axes = plt.subplots()
    curves = dict(found["by labels"])
    axes.set_title(f"what pre-training is worth in labels: {curves.pop('task')}")
    for row, by_labels in curves.items():
        values = np.array(list(by_labels.values()))
        numbers = [int(n) for n in by_labels]
        axes.errorbar(numbers, values.mean(axis=1), values.std(axis=1), label=row, capsize=3)
    axes.set(xscale="log", xlabel="labels", ylabel="points on test, mean and deviation of the seeds")
    axes.set_xticks(numbers, numbers)
    axes.minorticks_off()
    axes.legend()
    plot.save(figure, "transfer_labels.png", machine.RESULTS)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--workers", type=int, default=machine.cores())
    parser.add_argument("--quick", action="store_true", help="a tenth of everything, nothing is written")
    parser.add_argument("--draw", action="store_true", help="only draw what was recorded")
    parser.add_argument("--models", help="a folder where pre-trained models are kept, and found again")
    options = parser.parse_args()
    if options.draw:
        draw(json.loads((machine.RESULTS / "transfer.json").read_text(encoding="utf-8"))["rows"]["study"])
        return
    started = time.perf_counter()
    with tempfile.TemporaryDirectory() as scratch:
        found = study(options.seeds, options.workers, options.quick, options.models or scratch)
    found["minutes"] = (time.perf_counter() - started) / 60
    print(machine.table(summary(found["points"]), [*tasks.TASKS, "average", "deviation"]))
    curves = {f"{LABELS[0]}, {row}": {n: statistics.mean(values) for n, values in found["by labels"][row].items()}
              for row in ("full", "no pre-training")}  # fmt: skip
    print(machine.table(curves, [str(n) for n in LABELS[1]]))
    for name, one in found["pretraining"].items():
        rows = {f"{name}, {step} updates": scores for step, scores in one["states"].items()}
        print(machine.table(rows, list(one["states"]["0"])))
    print(f"{found['minutes']:.1f} minutes with {options.workers} processes of one thread")
    if not options.quick:
        machine.save("transfer", {"study": found}, options.workers)
        draw(found)


if __name__ == "__main__":
    main()

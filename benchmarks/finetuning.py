"""Real text: a GPT-1 pre-trained for minutes on Korean sentences, then fine-tuned on labels, against one from scratch.

    MINIGPT_EVAL_DATA=folder python benchmarks/finetuning.py     # about 25 minutes on two cores

Film reviews (NSMC: is it positive?) and pairs of questions (do they ask the same?). For each seed one GPT-1 is
pre-trained on the unlabelled reviews and questions of both training sets, and fine-tuned on each task; beside it the
same model with fresh weights. Every job is one process with one thread.
"""

import argparse
import multiprocessing
import os
import statistics
import tempfile
import time
from pathlib import Path

import machine
import numpy as np

from minigpt import models
from minigpt.data import labelled_files
from minigpt.data.input_transformations import SPECIAL
from minigpt.device.threads import set_threads
from minigpt.evaluation import metrics
from minigpt.jobs import finetune, pretrain
from minigpt.models.classifier import Classifier, transfer
from minigpt.tokenizer import GPT2Tokenizer

FILES = {  # train, valid (None: the last tenth of train), test
    "nsmc": ("nsmc/ratings_train_20k.txt", None, "nsmc/ratings_test_5k.txt"),
    "question_pair": tuple(f"question_pair/{name}.txt" for name in ("train", "validation", "test")),
}
VOCABULARY = 2000  # bytes and merges: with GPT-1's own tokenizer most of these would be single Korean syllables
PRETRAINING = pretrain.PretrainOptions(  # a rate of 2e-3 and more stays for good at guessing by frequency: 6.7 nats
    layers=2, heads=4, embd=128, context=128, batch=12, steps=1600, lr=1e-3, beta2=0.99, eval_every=1600,
    warmup=160, init_std=0.02,
)  # fmt: skip
TUNING = {"epochs": 3, "batch": 32, "lr": 1e-3}


def splits(name: str, folder: Path) -> tuple:
    """(task, {split: examples}) of a data set."""
    found, task = {}, None
    for split, file in zip(("train", "valid", "test"), FILES[name], strict=True):
        if file:
            labels = task and task.labels
            task, found[split] = labelled_files.read(folder / file, name, labels=labels, say=lambda text: None)
    if "valid" not in found:
        cut = len(found["train"]) * 9 // 10
        found["train"], found["valid"] = found["train"][:cut], found["train"][cut:]
    return task, found


def pretrain(seed: int, folder: str, data: str) -> dict:
    """Train a GPT-1 on the texts of both training sets, a line each; returns its losses."""
    texts = [text for name in FILES for example in splits(name, Path(data))[1]["train"] for text in example.texts]
    order = np.random.default_rng(0).permutation(len(texts))
    path = Path(folder) / f"texts-{seed}.txt"
    path.write_text("\n".join(texts[i] for i in order) + "\n", encoding="utf-8")
    tokenizer = Path(folder) / f"tokenizer-{seed}"
    tokenizer.mkdir()
    GPT2Tokenizer.train([path.read_text(encoding="utf-8")], VOCABULARY).save(tokenizer)
    started = time.perf_counter()
    options = {**vars(PRETRAINING), "data": str(path), "tokenizer": str(tokenizer), "seed": seed}
    options["out"] = f"{folder}/gpt1-{seed}"
    job = pretrain.prepare(pretrain.PretrainOptions(**options))
    pretrain.loop(job)
    return {"loss": job.best, "minutes": (time.perf_counter() - started) / 60, "tokens": len(job.train)}


def tune(name: str, layers: int | None, seed: int, folder: str, data: str) -> dict:
    """Fine-tune, from the pre-trained model (layers None) or from nothing (-1); returns the scores on test."""
    pretrained, plain = models.open_both(f"{folder}/gpt1-{seed}")
    text, (task, examples) = plain.with_special(SPECIAL), splits(name, Path(data))
    room = pretrained.config.n_positions
    encoded = {split: finetune.encode(part, task, text, room) for split, part in examples.items()}
    options = finetune.FinetuneOptions(model="", task=name, train="", **TUNING)
    classifier = Classifier(transfer(pretrained, len(SPECIAL), layers, seed=seed), task, seed=seed)
    finetune.tune(classifier, encoded["train"], encoded["valid"], options, seed)
    judged, labels = finetune.evaluate(classifier, encoded["test"]), np.array(encoded["test"].labels)
    right = int((judged.answers == labels).sum())
    return {"right": right, "n": len(labels), task.metric: judged.score, "accuracy": right / len(labels),
            "cut": encoded["test"].cut}  # fmt: skip


def run(job: tuple) -> tuple:
    """(job, what it found); a job is (function, its arguments)."""
    function, *arguments = job
    return job, {"pretrain": pretrain, "tune": tune}[function](*arguments)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", default=os.environ.get("MINIGPT_EVAL_DATA"), help="default: MINIGPT_EVAL_DATA")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--workers", type=int, default=machine.cores())
    options = parser.parse_args()
    if not options.data:
        parser.error("give --data, the folder with nsmc/ and question_pair/")
    started, rows = time.perf_counter(), {}
    processes = multiprocessing.get_context("spawn").Pool(options.workers, set_threads, (1,))
    with tempfile.TemporaryDirectory() as folder, processes as pool:
        for (_, seed, *_), found in pool.imap_unordered(
            run, [("pretrain", seed, folder, options.data) for seed in range(options.seeds)]
        ):
            rows[f"pre-training, seed {seed}"] = found
            print(f"pre-training, seed {seed}: {found}", flush=True)
        jobs = [("tune", name, layers, seed, folder, options.data)
                for name in FILES for seed in range(options.seeds) for layers in (None, -1)]  # fmt: skip
        for (_, name, layers, seed, *_), found in pool.imap_unordered(run, jobs):
            rows[f"{name}, {'from scratch' if layers == -1 else 'pre-trained'}, seed {seed}"] = found
            print(f"{name} {layers} seed {seed}: {found}", flush=True)
    for name in FILES:
        for way in ("pre-trained", "from scratch"):
            found = [rows[f"{name}, {way}, seed {seed}"] for seed in range(options.seeds)]
            scores = [one["accuracy"] for one in found]
            low, high = metrics.wilson(statistics.mean(one["right"] for one in found), found[0]["n"])
            spread = statistics.stdev(scores) if len(scores) > 1 else 0.0
            rows[f"{name}, {way}"] = {"accuracy": statistics.mean(scores), "deviation": spread, "low": low,
                                      "high": high}  # fmt: skip
    print(machine.table(rows, ("accuracy", "f1", "deviation", "low", "high", "loss", "minutes")))
    print(f"{(time.perf_counter() - started) / 60:.1f} minutes")
    machine.save("finetuning", rows, options.workers)


if __name__ == "__main__":
    main()

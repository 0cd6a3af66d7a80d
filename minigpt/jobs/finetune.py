"""Fine-tuning: from a pre-trained model and labelled examples to a classifier (GPT-1 sections 3.2 and 4.1).

Three epochs, a rate that rises over 0.2 % of the updates and falls in a straight line, the auxiliary loss of the
language model with weight 0.5, the epoch that was best on validation: GPT-1's recipe, with GPT-1's optimiser.
"""

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from tqdm import tqdm

from minigpt import models
from minigpt.data import input_transformations, labelled_files, stories
from minigpt.data.examples import KINDS, Example, Task
from minigpt.data.input_transformations import SPECIAL, Encoded
from minigpt.data.stories import tasks
from minigpt.device.gpu import choose_device
from minigpt.device.threads import threads
from minigpt.errors import InputError, check_ranges
from minigpt.evaluation import metrics
from minigpt.files import disk, hub
from minigpt.jobs.option_fields import REQUIRED, OnDevice, argument, option
from minigpt.jobs.run_folder import Run, refuse_occupied, write_table
from minigpt.models.classifier import Classifier, Losses, expected_score, score_targets, transfer
from minigpt.nn.optim import GPT1Adam, NonFiniteGradient, clip_by_global_norm
from minigpt.nn.schedules import warmup_linear
from minigpt.ops.random_keys import Key
from minigpt.tokenizer import Tokenizer

COLUMNS = ("seed", "epoch", "step", "train_loss", "lm_loss", "valid_loss", "score")
RATE = 0.048  # times 1 / width: the highest learning rate; at width 768 the paper's 6.25e-5
CURVES, PICTURE, RESULTS = "finetune.csv", "finetune.png", "results.json"


def parse_columns(text: str) -> dict[str, str]:
    """"text=document,label=stars" -> {"text": "document", "label": "stars"}. Raises InputError."""
    columns = {}
    for part in text.split(","):
        role, _, name = part.partition("=")
        if not role or not name:
            raise InputError(f"--columns {text}: give pairs such as text=document,label=stars")
        columns[role.strip()] = name.strip()
    return columns


@dataclass(kw_only=True)
class FinetuneOptions(OnDevice):
    """What `minigpt finetune` can be told. None: a default that depends on the others."""

    model: str = argument("a model directory, or the name of a downloaded one", metavar="MODEL")
    task: str = option(
        REQUIRED,
        f"{', '.join(KINDS)}; a data set: {', '.join(labelled_files.LAYOUTS)}; with --train stories:N one of the story "
        f"world: {', '.join(tasks.TASKS)}",
        metavar="KIND",
    )
    train: str = option(REQUIRED, "labelled examples: .tsv, .csv, .jsonl; or stories:N", metavar="FILE")
    valid: str | None = option(
        None, "chooses the best epoch (default: a tenth of --train; of stories, others)", metavar="FILE"
    )
    test: str | None = option(None, "judged once, at the end", metavar="FILE")
    columns: dict[str, str] | None = option(
        None,
        "where columns are called otherwise: text=document,label=stars",
        metavar="ROLE=NAME,...",
        parse=parse_columns,
    )
    out: str | None = option(None, "folder for the model (default: runs/MODEL-KIND)", metavar="DIR")
    lm_weight: float = option(0.5, "of the auxiliary language-model loss", metavar="W")
    epochs: int = option(3, metavar="N")
    batch: int = option(32, "examples in an update", metavar="B")
    lr: float | None = option(None, f"highest learning rate (default: {RATE} / width)", metavar="RATE")
    warmup: float = option(0.002, "of the updates", metavar="SHARE")
    dropout: float | None = option(None, "in the body (default: as it was pre-trained)", metavar="P")
    head_dropout: float = option(0.1, "before the head", metavar="P")
    weight_decay: float = option(0.01, metavar="W")
    clip: float = option(1.0, "longest gradient; 0 is no clipping", metavar="NORM")
    transfer: int | None = option(
        None, "take over only the embeddings and K layers; -1: nothing at all (default: all layers)", metavar="K"
    )
    seed: int = option(0, "of new weights, order and dropout", metavar="S")
    seeds: int = option(1, "fine-tune N times, with seeds from S on", metavar="N")

    def check(self) -> None:
        """Raises InputError for a number outside its range."""
        check_ranges(self, 1, "epochs", "batch", "seeds")
        check_ranges(self, 0, "seed", "lm_weight", "weight_decay", "clip", "lr")
        for name in ("dropout", "head_dropout", "warmup"):
            value = getattr(self, name)
            if value is not None and not 0 <= value < 1:
                raise InputError(f"--{name.replace('_', '-')} {value}: give a share from 0 up to, but not including, 1")


class Data(NamedTuple):
    """The examples of one split, and the same as sequences of tokens."""

    examples: list[Example]
    encoded: list[list[Encoded]]

    @property
    def labels(self) -> list:
        return [example.label for example in self.examples]

    @property
    def cut(self) -> int:
        """How many examples were too long for the context."""
        return sum(any(one.cut for one in example) for example in self.encoded)


class Judged(NamedTuple):
    """How a classifier did: the task's metric, the mean cross-entropy in nats, its answers, and how sure it was."""

    score: float
    loss: float
    answers: np.ndarray  # (N,) int: labels or choices; float: scores
    probabilities: np.ndarray  # (N,K)


def load(
    name: str, source: str, split: str, columns: dict[str, str] | None, known: Task | None = None
) -> tuple[Task, list]:
    """(the task, its examples) of a file, or of the story world: "stories:N", "stories:N:V" (see `stories.tasks`).

    known: the task as the training examples defined it, which must be that of the others too. Raises InputError.
    """
    own = tasks.TASKS.get(name)
    if source != "stories" and not source.startswith("stories:"):
        own = None if name in KINDS else own  # a file of the story world, with the columns of its kind
        labels = (known or own or Task("")).labels or None
        task, examples = labelled_files.read(source, own.kind if own else name, columns=columns, labels=labels)
        task = own or task
    else:
        _, *numbers = source.split(":")
        if columns:
            raise InputError(f"--columns: {source} is no file and has no columns: leave it out")
        if own is None:
            raise InputError(f"the story world has no task {name!r}: choose {', '.join(tasks.TASKS)}")
        if len(numbers) > 2 or not all(number.isdecimal() for number in numbers):
            raise InputError(f"{source}: give stories: and a number of examples, such as stories:2000")
        n, variety = [int(number) for number in numbers] + [2000, stories.VARIETY][len(numbers) :]
        task, examples = own, tasks.examples(name, n, split, variety=variety)
    if known and task != known:
        raise InputError(f"{source} has {_answers(task)}, and the training examples have {_answers(known)}")
    return task, examples


def _answers(task: Task) -> str:
    return f"the labels {', '.join(task.labels)}" if task.labels else "scores" if task.scored else "choices"


def encode(examples: list[Example], task: Task, text: Tokenizer, room: int, source: str = "") -> Data:
    """The examples together with their token sequences. Raises InputError for what cannot be a sequence.

    source: where they come from, in words, for the error.
    """
    if not examples:
        raise InputError("there are no examples: give a file with some")
    try:
        return Data(examples, input_transformations.encode_all(examples, task.kind, text, room))
    except InputError as error:
        raise InputError(f"{source}{source and ', '}{error}") from error


def batches(lengths: Sequence[int], size: int, rng: np.random.Generator) -> list[np.ndarray]:
    """The examples in any order, in batches; what does not fill one is left out, as in OpenAI's code.

    Those of like length come together: of eight batches at a time the examples are sorted, so that little is filled up.
    """
    order, size = rng.permutation(len(lengths)), min(size, len(lengths))
    order = order[: len(order) // size * size]
    lengths = np.asarray(lengths)
    found = []
    for first in range(0, len(order), 8 * size):
        group = order[first : first + 8 * size]
        group = group[np.argsort(lengths[group], kind="stable")]
        found += [group[i : i + size] for i in range(0, len(group), size)]
    return [found[i] for i in rng.permutation(len(found))]


def update(
    model: Classifier, data: Data, rows: np.ndarray, options: FinetuneOptions, key: Key, optimizer, lr: float
) -> Losses:
    """One update of the weights; returns the losses before it."""
    ids, lengths = input_transformations.batch([data.encoded[i] for i in rows])
    labels = np.array([data.examples[i].label for i in rows])
    model.zero_grad()
    losses, cache = model.loss(ids, lengths, labels, options.lm_weight, key=key)
    model.loss_backward(cache)
    clip_by_global_norm(model.named_parameters(), options.clip)
    optimizer.step(lr)
    return losses


def answer(model: Classifier, encoded: Sequence[Sequence[Encoded]], size: int = 64) -> np.ndarray:
    """(N,K): how likely each label, or each candidate, is the right one, for sequences of like length together."""
    order = sorted(range(len(encoded)), key=lambda i: len(encoded[i][0].ids))
    found: list[Any] = [None] * len(encoded)
    for first in range(0, len(order), size):
        rows = order[first : first + size]
        ids, lengths = input_transformations.batch([encoded[i] for i in rows])
        for i, p in zip(rows, model.probabilities(ids, lengths), strict=True):
            found[i] = p
    return np.array(found)


def evaluate(model: Classifier, data: Data) -> Judged:
    """Judge a classifier by the task's own metric, on all of these examples."""
    p, labels = answer(model, data.encoded), np.array(data.labels)
    if not model.task.scored:
        answers, right = p.argmax(axis=1), p[np.arange(len(p)), labels]
        loss = -np.log(np.maximum(right, 1e-300)).mean()
    else:
        answers = expected_score(p)
        classes, weights = score_targets(labels)
        loss = -(weights * np.log(np.maximum(np.take_along_axis(p, classes, axis=1), 1e-300))).sum(axis=1).mean()
    return Judged(metrics.judge(model.task, answers, labels), float(loss), answers, p)


def tune(
    model: Classifier, train: Data, valid: Data, options: FinetuneOptions, seed: int,
    keep: Callable[[], object] = lambda: None, log: Callable[..., object] = lambda **row: None,
) -> Judged:
    """Fine-tune a classifier in place: it ends as it was after its best epoch on validation; returns how that did.

    keep() runs at the end of each epoch that is the best so far;
    log(epoch=..., step=..., train_loss=..., lm_loss=..., valid_loss=..., score=...) runs after every epoch.
    Raises InputError where a gradient is not finite.
    """
    optimizer = GPT1Adam(model.named_parameters(), weight_decay=options.weight_decay)
    rate = RATE / model.body.config.n_embd if options.lr is None else options.lr
    lengths = [max(len(one.ids) for one in example) for example in train.encoded]
    in_epoch = len(lengths) // min(options.batch, len(lengths))
    total, step, best, weights = in_epoch * options.epochs, 0, None, {}
    with tqdm(total=total, unit="step", dynamic_ncols=True, leave=False, disable=None) as bar:
        for epoch in range(options.epochs):
            losses = []
            for rows in batches(lengths, options.batch, np.random.default_rng([seed, epoch])):
                lr, key = rate * warmup_linear(step / total, options.warmup), Key.of(seed, step)
                try:
                    found = update(model, train, rows, options, key, optimizer, lr)
                except NonFiniteGradient as error:
                    raise InputError(f"update {step + 1}: {error}: give a smaller --lr than {rate:.2g}") from error
                losses.append((float(found.task), float(found.lm)))
                step += 1
                bar.update()
                bar.set_postfix_str(f"loss {losses[-1][0]:.3f}, language model {losses[-1][1]:.3f}")
            judged = evaluate(model, valid)
            means = dict(zip(("train_loss", "lm_loss"), np.mean(losses, axis=0), strict=True))
            log(epoch=epoch + 1, step=step, **means, valid_loss=judged.loss, score=judged.score)
            if best is None or judged.score > best.score:
                best, weights = judged, {name: p.data.copy() for name, p in model.named_parameters()}
                keep()
    for name, parameter in model.named_parameters():
        parameter.data = weights[name]
    return best


def finetune(options: FinetuneOptions) -> list[float]:
    """Fine-tune the model in `options.model`, once for each seed; returns the scores on test, or else on validation.

    Writes a model directory (`options.out`; with several seeds, one below it for each): the best epoch's model, its
    head and its tokenizer; and finetune.csv, finetune.png, results.json. Raises InputError for whatever cannot work,
    before anything is written.
    """
    options.check()
    pretrained, plain = models.open_both(options.model)
    text = plain.with_special(SPECIAL)
    task, examples = load(options.task, options.train, "train", options.columns)
    splits = {"train": examples}
    world = options.train == "stories" or options.train.startswith("stories:")
    for split, source in (("valid", options.valid or (options.train if world else None)), ("test", options.test)):
        if source:
            splits[split] = load(options.task, source, split, options.columns, task)[1]
    if "valid" not in splits:
        splits |= _hold_out(examples, task, options.train)
    room, sources = pretrained.config.n_positions, {"valid": options.valid, "test": options.test}
    data = {split: encode(found, task, text, room, sources.get(split) or options.train)
            for split, found in splits.items()}  # fmt: skip
    run = Run.start(options.out or f"runs/{Path(options.model).name}-{options.task}")
    refuse_occupied(run.folder, (CURVES, PICTURE, RESULTS))
    folders = {seed: run.folder / f"seed-{seed}" if options.seeds > 1 else run.folder
               for seed in range(options.seed, options.seed + options.seeds)}  # fmt: skip
    for folder in folders.values():
        Run.start(folder)
    device = choose_device(options.device)
    new_rows, rows, scores, last = text.vocab_size - plain.vocab_size, [], [], None
    announce(options, task, data, pretrained)
    for seed, folder in folders.items():
        body = transfer(pretrained, new_rows, options.transfer, options.dropout, seed)
        model = Classifier(body, task, options.head_dropout, seed).to(device)

        def keep(model=model, folder=folder):
            model.save(folder)
            text.save(folder)

        def log(seed=seed, **row):
            _claim(run.folder / CURVES, rows)
            rows.append({"seed": seed} | row)
            write_table(run.folder / CURVES, COLUMNS, rows)
            print(f"seed {seed}, epoch {row['epoch']}: training loss {row['train_loss']:.4f}, "
                  f"validation loss {row['valid_loss']:.4f}, {task.metric} {row['score']:.4f}")  # fmt: skip

        last = tune(model, data["train"], data["valid"], options, seed, keep, log)
        if "test" in data:
            last = evaluate(model, data["test"])
        scores.append(last.score)
    from minigpt import plot  # here, because matplotlib takes longer to import than all the rest

    plot.finetuning_curves(rows, task.metric, run.folder / PICTURE)
    split = "test" if "test" in data else "valid"
    report(task, split, scores, last, data[split], run.folder)
    return scores


def _claim(path: Path, rows: list) -> None:
    """Take a folder, with an empty file, before the first row. Raises InputError where another run was quicker."""
    if rows:
        return
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch(exist_ok=False)
    except FileExistsError as error:
        raise InputError(f"another run has just begun in {path.parent}: give another --out") from error


def _hold_out(examples: list[Example], task: Task, source: str) -> dict[str, list[Example]]:
    """Nine tenths for training and one for validation, drawn at random, as in OpenAI's code. Raises InputError."""
    order, n = np.random.default_rng(0).permutation(len(examples)), -(-len(examples) * 9 // 10)
    train, valid = ([examples[i] for i in some] for some in (order[:n], order[n:]))
    if not valid:
        raise InputError(f"{source} has {len(examples)} examples, too few to keep a tenth apart: give --valid")
    if task.labels and len({example.label for example in train}) < 2:
        raise InputError(f"{source}: without the tenth that is kept apart only one label is left: give --valid")
    return {"train": train, "valid": valid}


def announce(options: FinetuneOptions, task: Task, data: dict[str, Data], body) -> None:
    """Say what the run works with, and what guessing would give, before it starts."""
    sizes = ", ".join(f"{len(part.examples):,} {split}" for split, part in data.items())
    longest = max(len(one.ids) for part in data.values() for example in part.encoded for one in example)
    cut = {split: part.cut for split, part in data.items() if part.cut}
    updates = options.epochs * (len(data["train"].examples) // min(options.batch, len(data["train"].examples)))
    print(f"task     {task.kind}, judged by {task.metric}; labels {', '.join(task.labels) or 'none'}\n"
          f"data     {sizes} examples; the longest sequence has {longest} tokens of {body.config.n_positions}\n"
          f"train    {updates:,} updates of {options.batch} examples, {options.seeds} seed{'s' * (options.seeds > 1)}, "
          f"{threads()} threads")  # fmt: skip
    for split, n in cut.items():
        total = len(data[split].examples)
        print(f"cut      {n:,} of {total:,} {split} examples were too long: they lost their beginnings")
    if not task.scored:
        counts = np.bincount(data["valid"].labels)
        print(f"expect   always the same answer would be right for {counts.max() / counts.sum():.1%} of validation")


def report(task: Task, split: str, scores: list[float], judged: Judged, data: Data, folder: Path) -> None:
    """Print and write the scores with mean and deviation, and the last seed's interval and confusion table."""
    labels = np.array(data.labels)
    low, high = metrics.interval(task, judged.answers, labels)
    spread = float(np.std(scores, ddof=1)) if len(scores) > 1 else None
    each = f": mean {np.mean(scores):.4f}, deviation {spread:.4f}" if spread is not None else ""
    print(f"{split} {task.metric} {', '.join(f'{score:.4f}' for score in scores)}{each}")
    if split == "valid":
        print("these examples chose the best epoch: for a score that nothing was chosen by, give --test")
    print(f"95 % interval of the last, over {len(labels):,} examples: {low:.4f} to {high:.4f}")
    result = {"task": task._asdict(), "split": split, "metric": task.metric, "scores": scores, "interval": [low, high]}
    if task.labels:
        table = metrics.confusion(judged.answers, labels, len(task.labels))
        print(metrics.confusion_table(task.labels, table))
        result["confusion"] = table.tolist()
    disk.write_text(folder / RESULTS, json.dumps(result, indent=2) + "\n")
    print(f"folder   {folder}")


def open_classifier(folder: str | Path, device: str | None = None) -> tuple[Classifier, Tokenizer]:
    """Open what `finetune` wrote: the classifier and its tokenizer."""
    body, text = models.open_both(folder)
    return Classifier.load(hub.find(folder), body).to(choose_device(device)), text

"""What a run will cost and what to expect of it, told before it starts; and what came out, told at its end."""

import contextlib
import math
import time
from typing import Any, NamedTuple

import numpy as np

from minigpt.data import input_transformations
from minigpt.data.examples import TAGGING
from minigpt.device.threads import about_threads
from minigpt.evaluation import metrics, tags
from minigpt.files import disk
from minigpt.jobs.finetune.examples import UNKNOWN, about_unknown, repeated, unknown_share
from minigpt.jobs.finetune.kept import RESULTS
from minigpt.jobs.finetune.preparation import Job
from minigpt.jobs.finetune.tuning import Judged, Tuning
from minigpt.models import costs
from minigpt.models.classifier import outputs
from minigpt.nn.optim import GPT1Adam, NonFiniteGradient
from minigpt.ops.random_keys import Key

LABELS_SHOWN = 9


def announce(job: Job, tuning: Tuning, seeds_left: int) -> None:
    """Print sizes, memory, minutes, what is lost of the examples, and what guessing would give.

    tuning: the first that runs; nothing of it is changed. seeds_left: with this one.
    """
    lines = _about_examples(job)
    lines += _warnings(job)
    print("\n".join(lines), flush=True)  # before time is measured, which may take a while
    lines = _about_size(job, tuning)
    lines.append(_about_time(job, tuning, seeds_left))
    lines.append(f"expect   {_about_guessing(job)}")
    lines.append(f"folder   {job.folder}")
    print("\n".join(lines), flush=True)


def _about_examples(job: Job) -> list[str]:
    """The task, and the sizes of the splits."""
    task = job.task
    parts = job.data.values()
    room = job.pretrained.config.n_positions
    longest = max(max(part.lengths) for part in parts)
    sizes = [f"{len(part.examples):,} {split}" for split, part in job.data.items()]
    return [
        f"task     {task.kind}, judged by {task.metric}; labels {_label_names(task.labels)}",
        f"data     {', '.join(sizes)} examples; the longest sequence has {longest} tokens of {room}",
    ]


def _label_names(labels: tuple[str, ...]) -> str:
    """The labels in words, the first ones of many."""
    if not labels:
        return "none"
    names = ", ".join(labels[:LABELS_SHOWN])
    more = len(labels) - LABELS_SHOWN
    return f"{names} and {more} more" if more > 0 else names


def _warnings(job: Job) -> list[str]:
    """Examples that stand in two splits, and what the model will not see of the texts."""
    lines = _about_repeated(job)
    for split, part in job.data.items():
        total = len(part.examples)
        if part.cut:
            lines.append(
                f"cut      {part.cut:,} of {total:,} {split} examples were too long: they lost their beginnings"
            )
        share = unknown_share(part, job.text)
        if share >= UNKNOWN:
            warning = about_unknown(share, job.options.model)
            lines.append(f"unknown  {split}: {warning}")
        elif share:
            lines.append(f"unknown  {split}: {share:.2%} of the tokens are unknown to the tokenizer")
    return lines


def _about_repeated(job: Job) -> list[str]:
    """A line for two splits that share examples: what was learned, or chose the best epoch, is no test."""
    lines = []
    tests = list(job.options.tests)
    for split, other in [("valid", "train"), *((test, other) for test in tests for other in ("train", "valid"))]:
        examples = job.data[split].examples
        n = repeated(job.task, examples, job.data[other].examples)
        if n:
            of_a_file = split in tests or job.options.valid is not None  # and not kept apart from the training file
            whole = ": is it the same file?" if n == len(examples) and of_a_file else ""
            what = f"{n:,} of {len(examples):,} {split} examples have the texts of {other} examples"
            lines.append(f"repeated {what}: what they score is known beforehand{whole}")
    return lines


def _about_size(job: Job, tuning: Tuning) -> list[str]:
    """Parameters, and the memory of an update."""
    name = type(job.pretrained).__name__
    numbers = sum(parameter.data.size for parameter in tuning.model.parameters())
    what = f"{name}, which writes its answers" if job.answers else f"{name} and a head"
    return [
        f"model    {what}: {numbers:,} parameters",
        f"memory   {update_memory(tuning, numbers)}",
    ]


def _about_time(job: Job, tuning: Tuning, seeds_left: int) -> str:
    """How many updates there will be, and how long they take."""
    updates = tuning.total * seeds_left - tuning.step
    evaluations = job.options.epochs * seeds_left - tuning.epoch
    speed = measure(tuning)
    seconds = updates * speed.update + evaluations * _tokens_to_judge(job) * speed.token
    size = min(job.options.batch, len(tuning.lengths))
    several = f" with {seeds_left} seeds" if seeds_left > 1 else ""
    work = f"{updates:,} updates of {size} examples{several}, {evaluations} evaluations"
    where = f"{job.device}, {about_threads()}"
    return f"time     {work}: about {duration(seconds)} on {where} ({speed.update:.3g} s an update)"


def _tokens_to_judge(job: Job) -> int:
    """The tokens of validation, where each sequence of an example is as long as its longest."""
    valid = job.data["valid"]
    return sum(valid.lengths) * len(valid.encoded[0])


def duration(seconds: float) -> str:
    """A time in words: seconds below a minute and a half, and then minutes."""
    return f"{seconds:.0f} seconds" if seconds < 90 else f"{seconds / 60:.1f} minutes"


def _about_guessing(job: Job) -> str:
    """The loss of guessing, and the score of the best answer that is always the same."""
    n = outputs(job.task)
    if job.answers:
        n = job.text.vocab_size  # of each token of an answer
    elif job.task.kind == "choice":
        n = len(job.data["train"].encoded[0])
    chance = math.log(n)
    return f"a loss of ln {n} = {chance:.2f} at first; {baseline_in_words(job, 'valid')}"


def baseline_in_words(job: Job, split: str) -> str:
    """What the best constant answer scores on a split, in the metric of the task."""
    task = job.task
    if task.metric in ("matthews", "pearson"):
        return f"always the same answer has a {task.metric} correlation of 0"
    train = job.data["train"].labels
    answer, score = metrics.best_constant(task, train, job.data[split].labels)
    name = repr(task.labels[answer]) if task.labels else f"choice {answer + 1}"
    return f"always answering {name} has {task.metric} {score:.4f} on {split}"


# ----------------------------------------------------------------------------------- the bytes and seconds of an update


class Speed(NamedTuple):
    """Seconds of an average update, and of judging one token."""

    update: float
    token: float


def update_memory(tuning: Tuning, numbers: int) -> costs.Memory:
    """Bytes of the largest update. The best weights so far are kept beside the weights, and counted with them."""
    body = tuning.model.body
    rows = min(tuning.options.batch, len(tuning.lengths)) * len(tuning.train.encoded[0])
    activations = costs.activations(type(body), body.config, rows, max(tuning.lengths))
    return costs.Memory(weights=8 * numbers, gradients=4 * numbers, moments=8 * numbers, activations=activations)


def measure(tuning: Tuning) -> Speed:
    """The time of an update and of judging, from one batch of usual length; nothing of the tuning is changed."""
    plan = tuning.plan()
    longest = [max(tuning.lengths[i] for i in rows) for rows in plan]
    middle = np.argsort(longest)[len(plan) // 2]
    usual = plan[middle]
    seconds = []
    for _ in range(2):  # the first one warms up
        start = time.perf_counter()
        _try_update(tuning, usual)
        seconds.append(time.perf_counter() - start)
    ids, lengths = input_transformations.batch([tuning.train.encoded[i] for i in usual])
    start = time.perf_counter()
    tuning.model.probabilities(ids, lengths)
    judging = time.perf_counter() - start
    share = np.mean(longest) / longest[middle]
    return Speed(min(seconds) * share, judging / ids.size)


def _try_update(tuning: Tuning, rows: np.ndarray) -> None:
    """An update with a rate of 0, by an optimiser of its own: every weight stays what it is, to the bit."""
    kept = tuning.optimizer
    tuning.optimizer = GPT1Adam(tuning.model.learned())
    with contextlib.suppress(NonFiniteGradient):  # the first update will tell
        tuning.learn(rows, Key.of(tuning.seed, 0), lr=0.0)
    tuning.optimizer = kept
    tuning.model.zero_grad()


# ------------------------------------------------------------------------------------------------------- what came out


def report(job: Job, scores: dict[str, list[float]], judged: dict[str, Judged]) -> None:
    """Print and write the scores with mean and deviation, and the last seed's interval and confusion table.

    scores, judged: by split. The results of the first one stand above those of the others, which have the names of
    their files.
    """
    result: dict[str, Any] = {}
    for split, one in judged.items():
        found = _result(job, split, scores[split], one)
        if not result:
            result = {"task": job.task._asdict(), **found}
        else:
            result.setdefault("others", []).append({"file": job.options.tests[split], **found})
    disk.write_json(job.folder / RESULTS, result)


def _result(job: Job, split: str, scores: list[float], judged: Judged) -> dict[str, Any]:
    """What came out on one split, printed too."""
    task = job.task
    labels = job.data[split].labels
    interval = metrics.interval(task, judged.answers, labels)
    _, constant = metrics.best_constant(task, job.data["train"].labels, labels)
    result: dict[str, Any] = {
        "split": split,
        "examples": len(labels),
        "metric": task.metric,
        "scores": scores,
        "interval": interval,
        "constant": constant,
    }
    of = f" of {job.options.tests[split]}" if len(job.options.tests) > 1 else ""
    print(f"{split} {task.metric} {in_words(scores)}{of}")
    print(f"to compare: {baseline_in_words(job, split)}")
    if max(scores) <= constant:
        print("no seed is better than that: more epochs, more examples, or another --lr may help")
    if split == "valid":
        print("these examples chose the best epoch: for a score that nothing was chosen by, give --test")
    print(f"95 % interval of the last, over {len(labels):,} examples: {interval[0]:.4f} to {interval[1]:.4f}")
    if task.kind == TAGGING:
        measures = {name: tags.judge(name, judged.answers, labels) for name in tags.beside(task.metric)}
        result["measures"] = measures
        for name, value in measures.items():
            print(f"{name:<16} {value:.4f}  {tags.MEASURES[name].about}")
        print(metrics.aligned(tags.table(task.metric, judged.answers, labels)))
    elif task.labels:
        table = metrics.confusion(judged.answers, labels, len(task.labels))
        print(metrics.confusion_table(task.labels, table))
        result["confusion"] = table.tolist()
    return result


def in_words(scores: list[float]) -> str:
    """The scores of all seeds, with mean and deviation where there are several."""
    each = ", ".join(f"{score:.4f}" for score in scores)
    if len(scores) == 1:
        return each
    return f"{each}: mean {np.mean(scores):.4f}, deviation {np.std(scores, ddof=1):.4f}"

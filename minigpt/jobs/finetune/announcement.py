"""What a run will cost and what to expect of it, told before it starts."""

import math
import time
from typing import NamedTuple

import numpy as np

from minigpt.data import input_transformations
from minigpt.device.threads import threads
from minigpt.evaluation import metrics
from minigpt.jobs.finetune.examples import UNKNOWN, about_unknown, unknown_share
from minigpt.jobs.finetune.preparation import Job
from minigpt.jobs.finetune.tuning import Tuning, batches
from minigpt.models import costs
from minigpt.models.classifier import outputs
from minigpt.nn.optim import GPT1Adam, NonFiniteGradient, clip_by_global_norm
from minigpt.ops.random_keys import Key


class Speed(NamedTuple):
    """Seconds of an average update, and of judging one token."""

    update: float
    token: float


def announce(job: Job, tuning: Tuning, seeds_left: int) -> None:
    """Print sizes, memory, minutes, what is lost of the examples, and what guessing would give.

    tuning: the first that runs; nothing of it is changed. seeds_left: with this one.
    """
    print(_about_examples(job), flush=True)
    for line in _warnings(job):
        print(line)
    print(_about_cost(job, tuning, seeds_left))
    print(f"expect   {_about_guessing(job)}")
    print(f"folder   {job.folder}", flush=True)


def _about_examples(job: Job) -> str:
    task = job.task
    room = job.pretrained.config.n_positions
    sizes = ", ".join(f"{len(part.examples):,} {split}" for split, part in job.data.items())
    longest = max(max(part.lengths) for part in job.data.values())
    return (
        f"task     {task.kind}, judged by {task.metric}; labels {', '.join(task.labels) or 'none'}\n"
        f"data     {sizes} examples; the longest sequence has {longest} tokens of {room}"
    )


def _warnings(job: Job) -> list[str]:
    """What the model will not see of the texts."""
    lines = []
    for split, part in job.data.items():
        n = len(part.examples)
        if part.cut:
            lines.append(f"cut      {part.cut:,} of {n:,} {split} examples were too long: they lost their beginnings")
        share = unknown_share(part, job.text)
        if share >= UNKNOWN:
            lines.append(f"unknown  {split}: {about_unknown(share, job.options.model)}")
        elif share:
            lines.append(f"unknown  {split}: {share:.2%} of the tokens are unknown to the tokenizer")
    return lines


def _about_cost(job: Job, tuning: Tuning, seeds_left: int) -> str:
    options = job.options
    numbers = sum(parameter.data.size for parameter in tuning.model.parameters())
    memory = update_memory(tuning, numbers)
    speed = measure(tuning)
    tokens = sum(sum(part.lengths) * len(part.encoded[0]) for name, part in job.data.items() if name != "train")
    updates = tuning.total * seeds_left - tuning.step
    evaluations = options.epochs * seeds_left - tuning.epoch
    seconds = updates * speed.update + evaluations * tokens * speed.token
    several = f" with {seeds_left} seeds" if seeds_left > 1 else ""
    size = min(options.batch, len(tuning.lengths))
    parts = ", ".join(f"{name} {costs.human_bytes(n)}" for name, n in zip(memory._fields, memory, strict=True))
    return (
        f"model    {type(job.pretrained).__name__} and a head: {numbers:,} parameters\n"
        f"memory   {costs.human_bytes(memory.total)}: {parts}\n"
        f"time     {updates:,} updates of {size} examples{several}, {evaluations} evaluations: about "
        f"{duration(seconds)} on {job.device}, {count_of(threads(), 'thread')} ({speed.update:.3g} s an update)"
    )


def duration(seconds: float) -> str:
    """A time in words: seconds below a minute and a half, and then minutes."""
    return f"{seconds:.0f} seconds" if seconds < 90 else f"{seconds / 60:.1f} minutes"


def count_of(n: int, thing: str) -> str:
    """1, "thread" -> "1 thread"; 2, "thread" -> "2 threads"."""
    return f"{n} {thing}" if n == 1 else f"{n} {thing}s"


def update_memory(tuning: Tuning, numbers: int) -> costs.Memory:
    """Bytes of the largest update. The best weights so far are kept beside the weights, and counted with them."""
    body = tuning.model.body
    rows = min(tuning.options.batch, len(tuning.lengths)) * len(tuning.train.encoded[0])
    activations = costs.activations(type(body), body.config, rows, max(tuning.lengths))
    return costs.Memory(weights=8 * numbers, gradients=4 * numbers, moments=8 * numbers, activations=activations)


def measure(tuning: Tuning) -> Speed:
    """The time of an update and of judging, from one batch of usual length; nothing of the tuning is changed."""
    lengths = np.asarray(tuning.lengths)
    plan = batches(tuning.lengths, tuning.options.batch, np.random.default_rng([tuning.seed, tuning.epoch]))
    sizes = [lengths[rows].max() for rows in plan]
    usual = plan[int(np.argsort(sizes)[len(sizes) // 2])]
    seconds = []
    for _ in range(2):  # the first one warms up
        start = time.perf_counter()
        _try_update(tuning, usual)
        seconds.append(time.perf_counter() - start)
    ids, at = input_transformations.batch([tuning.train.encoded[i] for i in usual])
    start = time.perf_counter()
    tuning.model.probabilities(ids, at)
    judging = time.perf_counter() - start
    share = np.mean(sizes) / lengths[usual].max()
    return Speed(min(seconds) * share, judging / ids.size)


def _try_update(tuning: Tuning, rows: np.ndarray) -> None:
    """An update with a rate of 0, by an optimiser of its own: every weight stays what it is, to the bit."""
    model = tuning.model
    ids, lengths = input_transformations.batch([tuning.train.encoded[i] for i in rows])
    labels = np.array([tuning.train.examples[i].label for i in rows])
    losses, cache = model.loss(ids, lengths, labels, tuning.options.lm_weight, key=Key.of(tuning.seed, 0))
    model.loss_backward(cache)
    try:
        clip_by_global_norm(model.named_parameters(), tuning.options.clip)
        GPT1Adam(model.named_parameters()).step(0.0)
    except NonFiniteGradient:
        pass  # the first update will tell
    float(losses.total)  # a GPU has done everything that was launched before
    model.zero_grad()


def _about_guessing(job: Job) -> str:
    """The loss of guessing, and the score of the best answer that is always the same."""
    n = outputs(job.task)
    if job.task.kind == "choice":
        n = len(job.data["train"].encoded[0])
    return f"a loss of ln {n} = {math.log(n):.2f} at first; {baseline_in_words(job, 'valid')}"


def baseline_in_words(job: Job, split: str) -> str:
    """What the best constant answer scores on a split, in the metric of the task."""
    answer, score = metrics.best_constant(job.task, job.data["train"].labels, job.data[split].labels)
    metric = job.task.metric
    if metric in ("matthews", "pearson"):
        return f"always the same answer has a {metric} correlation of 0"
    name = repr(job.task.labels[answer]) if job.task.labels else f"choice {answer + 1}"
    return f"always answering {name} has {metric} {score:.4f} on {split}"

"""What a run will cost and what to expect of it, told before it starts."""

import math

from minigpt.device.threads import threads
from minigpt.evaluation import metrics
from minigpt.jobs.finetune.cost import measure, update_memory
from minigpt.jobs.finetune.examples import UNKNOWN, about_unknown, unknown_share
from minigpt.jobs.finetune.preparation import Job
from minigpt.jobs.finetune.tuning import Tuning
from minigpt.models import costs
from minigpt.models.classifier import outputs


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
    numbers = sum(parameter.data.size for parameter in tuning.model.parameters())
    memory = update_memory(tuning, numbers)
    parts = [f"{name} {costs.human_bytes(n)}" for name, n in zip(memory._fields, memory, strict=True)]
    updates = tuning.total * seeds_left - tuning.step
    evaluations = job.options.epochs * seeds_left - tuning.epoch
    speed = measure(tuning)
    of_updates = updates * speed.update
    of_evaluations = evaluations * _tokens_to_judge(job) * speed.token
    size = min(job.options.batch, len(tuning.lengths))
    several = f" with {seeds_left} seeds" if seeds_left > 1 else ""
    return (
        f"model    {type(job.pretrained).__name__} and a head: {numbers:,} parameters\n"
        f"memory   {costs.human_bytes(memory.total)}: {', '.join(parts)}\n"
        f"time     {updates:,} updates of {size} examples{several}, {evaluations} evaluations: about "
        f"{duration(of_updates + of_evaluations)} on {job.device}, {count_of(threads(), 'thread')} "
        f"({speed.update:.3g} s an update)"
    )


def _tokens_to_judge(job: Job) -> int:
    """The tokens of validation, where each sequence of an example is as long as its longest."""
    valid = job.data["valid"]
    return sum(valid.lengths) * len(valid.encoded[0])


def duration(seconds: float) -> str:
    """A time in words: seconds below a minute and a half, and then minutes."""
    return f"{seconds:.0f} seconds" if seconds < 90 else f"{seconds / 60:.1f} minutes"


def count_of(n: int, thing: str) -> str:
    """1, "thread" -> "1 thread"; 2, "thread" -> "2 threads"."""
    return f"{n} {thing}" if n == 1 else f"{n} {thing}s"


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

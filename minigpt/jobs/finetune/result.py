"""The scores of a run, printed and written: their mean, their interval, and what a constant answer would score."""

import numpy as np

from minigpt.evaluation import metrics
from minigpt.files import disk
from minigpt.jobs.finetune.announcement import baseline_in_words
from minigpt.jobs.finetune.judging import Judged
from minigpt.jobs.finetune.kept import RESULTS
from minigpt.jobs.finetune.preparation import Job


def report(job: Job, scores: list[float], judged: Judged) -> None:
    """Print and write the scores with mean and deviation, and the last seed's interval and confusion table."""
    task = job.task
    split = "test" if "test" in job.data else "valid"
    labels = np.array(job.data[split].labels)
    interval = metrics.interval(task, judged.answers, labels)
    _, constant = metrics.best_constant(task, job.data["train"].labels, labels)
    result = {
        "task": task._asdict(),
        "split": split,
        "examples": len(labels),
        "metric": task.metric,
        "scores": scores,
        "interval": interval,
        "constant": constant,
    }
    print(f"{split} {task.metric} {in_words(scores)}")
    print(f"to compare: {baseline_in_words(job, split)}")
    if max(scores) <= constant:
        print("no seed is better than that: more epochs, more examples, or another --lr may help")
    if split == "valid":
        print("these examples chose the best epoch: for a score that nothing was chosen by, give --test")
    print(f"95 % interval of the last, over {len(labels):,} examples: {interval[0]:.4f} to {interval[1]:.4f}")
    if task.labels:
        table = metrics.confusion(judged.answers, labels, len(task.labels))
        print(metrics.confusion_table(task.labels, table))
        result["confusion"] = table.tolist()
    disk.write_json(job.folder / RESULTS, result)


def in_words(scores: list[float]) -> str:
    """The scores of all seeds, with mean and deviation where there are several."""
    each = ", ".join(f"{score:.4f}" for score in scores)
    if len(scores) == 1:
        return each
    return f"{each}: mean {np.mean(scores):.4f}, deviation {np.std(scores, ddof=1):.4f}"

"""Labelled examples: the texts of a task, and the right answer. Files, the story world and fine-tuning use them."""

from typing import Any, NamedTuple

from minigpt.errors import InputError

TAGGING = "tagging"  # a label for each word or character of a sentence
KINDS = ("classification", "entailment", "similarity", "choice", TAGGING)  # the first four: GPT-1 figure 1
METRICS = ("accuracy", "f1", "micro_f1", "macro_f1", "matthews", "pearson")
TAG_METRICS = ("entity_f1", "entity_macro_f1", "tag_macro_f1", "uas", "las", "uas_macro_f1", "las_macro_f1")


class Example(NamedTuple):
    """One example.

    texts: (text,) of a classification; (premise, hypothesis) of an entailment; (a, b) of a similarity; (context,) or
    (context, question) of a multiple choice, whose candidates are `choices`; of a tagging the units of a sentence, and
    the spaces between them.
    label: the index of the right label, or of the right choice; a score, a float, where a task has no labels; of a
    tagging the names of the labels of all units but spaces; None where the answer is not known.
    """

    texts: tuple[str, ...]
    label: Any = None
    choices: tuple[str, ...] = ()


class Task(NamedTuple):
    """What all examples of a task share: their kind of input, the names of the labels, how answers are judged.

    kind: one of KINDS. labels: empty for a multiple choice, and for a score from 0 to 5 (a similarity judged by
    "pearson"). metric: one of METRICS, of a tagging one of TAG_METRICS. positive: the index of the
    label of which F1 is taken.
    """

    kind: str
    labels: tuple[str, ...] = ()
    metric: str = "accuracy"
    positive: int = 1

    @property
    def scored(self) -> bool:
        """Are its answers numbers from 0 to 5, neither labels nor choices?"""
        return not self.labels and self.kind != "choice"


def check_task(task: Task) -> None:
    """Raises InputError for an unknown kind or metric, and for labels that cannot be told apart."""
    if task.kind not in KINDS:
        raise InputError(f"unknown kind of task {task.kind!r}: choose {', '.join(KINDS)}")
    metrics = TAG_METRICS if task.kind == TAGGING else METRICS
    if task.metric not in metrics:
        raise InputError(f"unknown metric {task.metric!r}: choose {', '.join(metrics)}")
    different = set(task.labels)
    if len(different) < len(task.labels) or len(task.labels) == 1:
        raise InputError(f"the labels are {', '.join(task.labels)}: give two or more different ones")

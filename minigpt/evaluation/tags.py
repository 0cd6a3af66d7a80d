"""How good are labels of words or characters? F1 of entities as CoNLL and KLUE count it, attachment scores of trees.

predictions, answers: of each sentence the names of its labels. Every measure here is an F1: of the classes that were
predicted in a sentence, and those that are there, some are in both. All sentences are counted together.

Sources: `conlleval` (Tjong Kim Sang and De Meulder 2003); seqeval (Nakayama 2018), whose "strict" mode KLUE uses; KLUE
(Park et al. 2021) and its code, `klue_baseline/metrics/functional.py`.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

import numpy as np

from minigpt.errors import InputError

Tags = Sequence[str]
OTHERS = "others"  # the class of all other relations
KLUE_RELATIONS = (  # the frequent ones, each a class of its own
    "NP", "NP_AJT", "VP", "NP_SBJ", "VP_MOD", "NP_OBJ", "AP", "NP_CNJ", "NP_MOD", "VNP", "DP", "VP_AJT", "VNP_MOD",
    "NP_CMP", "VP_SBJ",
)  # fmt: skip
WRONG_HEAD = "wrong head"  # a class of its own among the predicted relations, as KLUE counts it


class Classes(NamedTuple):
    """Of a sentence: a class for each thing that was predicted, for each that is there, and for each that is both."""

    predicted: list[str]
    there: list[str]
    both: list[str]


def entities(tags: Tags, strict: bool = False) -> set[tuple[str, int, int]]:
    """(type, first, last) of each entity. strict: only B- begins one; else an I- after nothing of its type does too."""
    found = set()
    is_open = None  # (type, first)
    for i, tag in enumerate([*tags, "O"]):
        prefix, _, name = tag.partition("-")
        if is_open and prefix == "I" and name == is_open[0]:
            continue
        if is_open:
            found.add((*is_open, i - 1))
        begins = prefix == "B" or (prefix == "I" and not strict)
        is_open = (name, i) if begins else None
    return found


def heads(tags: Tags) -> list[tuple[int, str]]:
    """(head, relation) of each word, counted from 1, from labels "offset:relation"; 0 for none, and outside of them."""
    found = []
    for number, tag in enumerate(tags, 1):
        offset, _, relation = tag.partition(":")
        head = number + int(offset) if offset.lstrip("-").isdecimal() and int(offset) else 0
        found.append((head if 0 <= head <= len(tags) else 0, relation))
    return found


def _of_entities(predicted: Tags, there: Tags, strict: bool = False) -> Classes:
    mine = entities(predicted, strict)
    theirs = entities(there, strict)
    return Classes(_types(mine), _types(theirs), _types(mine & theirs))


def _types(found: set[tuple[str, int, int]]) -> list[str]:
    return [name for name, _, _ in found]


def _of_strict_entities(predicted: Tags, there: Tags) -> Classes:
    return _of_entities(predicted, there, strict=True)


def _one_each(predicted: Sequence[str], there: Sequence[str]) -> Classes:
    """Where each unit has one class."""
    return Classes(list(predicted), list(there), [a for a, b in zip(predicted, there, strict=True) if a == b])


def _of_heads(predicted: Tags, there: Tags) -> Classes:
    """The class is the number of the head."""
    return _one_each([str(head) for head, _ in heads(predicted)], [str(head) for head, _ in heads(there)])


def _of_relations(predicted: Tags, there: Tags) -> Classes:
    """The class is the relation; of a word whose head is wrong it is WRONG_HEAD."""
    mine = []
    theirs = []
    for (head, relation), (right_head, right_relation) in zip(heads(predicted), heads(there), strict=True):
        mine.append(_counted(relation) if head == right_head else WRONG_HEAD)
        theirs.append(_counted(right_relation))
    return _one_each(mine, theirs)


def _counted(relation: str) -> str:
    """The class as which KLUE counts a relation."""
    return relation if relation in KLUE_RELATIONS else OTHERS


def _of_pairs(predicted: Tags, there: Tags) -> Classes:
    """The class is the head together with the relation."""
    return _one_each([str(pair) for pair in heads(predicted)], [str(pair) for pair in heads(there)])


def micro(counts: np.ndarray) -> float:
    """counts (K,3): predicted, there, both -> F1 of all classes together; 0 where nothing is there"""
    predicted, there, both = counts.sum(axis=0)
    return float(2 * both / max(1, predicted + there))


def macro(counts: np.ndarray) -> float:
    """counts (K,3) -> the mean of the F1 of each class that is predicted, or there; 0 where none is"""
    predicted, there, both = counts[counts.any(axis=1)].T
    return float(np.mean(2 * both / (predicted + there))) if len(both) else 0.0


class Measure(NamedTuple):
    """What is counted of a sentence, and what is made of the counts. about: for people."""

    classes: Callable[[Tags, Tags], Classes]
    reduce: Callable[[np.ndarray], float]
    about: str


MEASURES = {
    "entity_f1": Measure(_of_entities, micro, "F1 of entities, as conlleval counts them"),
    "entity_macro_f1": Measure(_of_strict_entities, macro, "the mean over the types of F1 of entities, KLUE's first"),
    "tag_macro_f1": Measure(_one_each, macro, "the mean over the labels of F1 of units, O too, KLUE's of characters"),
    "uas": Measure(_of_heads, micro, "the share of right heads"),
    "las": Measure(_of_pairs, micro, "the share of right heads with their relation"),
    "uas_macro_f1": Measure(_of_heads, macro, "the mean over the numbers of heads of F1, KLUE's first"),
    "las_macro_f1": Measure(_of_relations, macro, "the mean over relations of F1 with the right head, KLUE's second"),
}
TOGETHER = (  # what is shown together
    ("entity_f1", "entity_macro_f1", "tag_macro_f1"),
    ("uas", "las", "uas_macro_f1", "las_macro_f1"),
)


def beside(metric: str) -> tuple[str, ...]:
    """The measures that are told where this one is: itself and its like."""
    return next(names for names in TOGETHER if metric in names)


def counts_of(metric: str, predictions: Iterable[Tags], answers: Iterable[Tags]) -> tuple[list[str], np.ndarray]:
    """The classes, sorted, and counts (N,K,3) of each sentence: predicted, there, both.

    Raises InputError where a sentence has more or fewer predictions than answers, and for none.
    """
    found = []
    for number, (predicted, there) in enumerate(zip(predictions, answers, strict=True), 1):
        if len(predicted) != len(there):
            raise InputError(f"sentence {number} has {len(predicted)} predictions for {len(there)} answers")
        found.append(MEASURES[metric].classes(predicted, there))
    if not found:
        raise InputError("there are no sentences: give one or more")
    names = sorted({name for classes in found for name in (*classes.predicted, *classes.there)})
    index = {name: k for k, name in enumerate(names)}
    counts = np.zeros((len(found), len(names), 3), np.int64)
    for row, classes in zip(counts, found, strict=True):
        for column, several in enumerate(classes):
            for name, n in Counter(several).items():
                row[index[name], column] = n
    return names, counts


def judge(metric: str, predictions: Iterable[Tags], answers: Iterable[Tags]) -> float:
    """One of MEASURES, from 0 to 1, over all sentences together. Raises InputError as `counts_of`."""
    _, counts = counts_of(metric, predictions, answers)
    return MEASURES[metric].reduce(counts.sum(axis=0))


def table(metric: str, predictions: Iterable[Tags], answers: Iterable[Tags]) -> list[list[str]]:
    """Rows of cells: of each class its precision, recall and F1, and how often it is there."""
    names, counts = counts_of(metric, predictions, answers)
    rows = [["class", "precision", "recall", "F1", "there"]]
    for name, (predicted, there, both) in zip(names, counts.sum(axis=0).tolist(), strict=True):
        shares = (both / max(1, predicted), both / max(1, there), 2 * both / max(1, predicted + there))
        rows.append([name, *(f"{share:.4f}" for share in shares), f"{there:,}"])
    return rows

"""A label for each token: the head of a classifier reads all states of a sentence, and not one (BERT section 5.3)."""

from typing import Any, NamedTuple

import numpy as np

from minigpt import ops
from minigpt.data.examples import Task
from minigpt.device.arrays import Array, array_module
from minigpt.models.classifier import Classifier
from minigpt.nn import Cache
from minigpt.ops.random_keys import Key


class StatesCache(NamedTuple):
    """What the backward of the head needs: the dropout mask, and the cache of the linear layer."""

    mask: Any
    head: Cache


class TokenClassifier(Classifier):
    """A language model with a head that gives each label a score at each token. The parameters are a Classifier's.

    `forward` gives scores (N,T,K); `loss` takes labels (N,T) int, -100 where a token is not asked.
    """

    def targets_of(self, labels: Any) -> tuple[np.ndarray, np.ndarray]:
        """labels (N,T) -> the same, and weights (N,T) which share 1 among the tokens of a sentence that are asked"""
        labels = np.asarray(labels)
        asked = labels != ops.IGNORED
        return labels, asked / np.maximum(1, asked.sum(axis=1, keepdims=True))

    def _asked(self, scores: Array, targets: Array) -> Array:
        """scores (N,T,K), targets (N,T) -> the scores: each token has one target"""
        return scores

    def _asked_backward(self, dasked: Array) -> Array:
        """dasked (N,T,K) -> dscores (N,T,K)"""
        return dasked

    def _scores(self, h: Array, lengths: Array, key: Key | None) -> tuple[Array, Any]:
        """h (N,T,C) -> scores (N,T,K)"""
        ones = array_module(h).ones(h.shape, h.dtype)
        mask, _ = ops.dropout_forward(ones, rate=self.dropout, key=key)
        scores, head = self.head.forward(h * mask)
        return scores, StatesCache(mask, head)

    def _scores_backward(self, dscores: Array, cache: Any) -> Array:
        """dscores (N,T,K) -> dh (N,T,C)"""
        return self.head.backward(dscores, cache.head) * cache.mask


def places_in(places: np.ndarray, body: Any) -> np.ndarray:
    """places (2,U), where units begin and end -> (U,): the token that is asked for each unit

    That in which a unit begins; or, of a body that sees the left alone, that in which it ends.
    """
    return places[1 if body.learns_the_next_token else 0]


def token_targets(places: np.ndarray, labels: Any, length: int) -> np.ndarray:
    """places (U,), labels (U,) int -> (length,) int: of each token the label of its first unit, else -100"""
    targets = np.full(length, ops.IGNORED)
    read = np.flatnonzero(places >= 0)[::-1]  # backwards, so that the first unit of a token is the last to be written
    targets[places[read]] = np.asarray(labels)[read]
    return targets


def labels_inside(task: Task) -> np.ndarray:
    """(K,) int: for each label of a token's first unit that of the later ones: I-TYPE for B-TYPE, if there is one"""
    index = {name: i for i, name in enumerate(task.labels)}
    inside = [f"I-{name[2:]}" if name.startswith("B-") else name for name in task.labels]
    return np.array([index.get(name, i) for i, name in enumerate(inside)])


def unit_answers(task: Task, probabilities: np.ndarray, places: np.ndarray) -> tuple[list[str], np.ndarray]:
    """probabilities (T,K), places (U,) -> the labels of the units, and how likely each is

    A unit without a token is "O" for sure. KLUE's rule: of the characters in one token only the first begins an entity.
    """
    read = places >= 0
    best = probabilities.argmax(axis=-1)[places]
    repeated = np.append(False, places[1:] == places[:-1])
    best = np.where(repeated, labels_inside(task)[best], best)
    names = [task.labels[i] if there else "O" for i, there in zip(best, read, strict=True)]
    return names, np.where(read, probabilities.max(axis=-1)[places], 1.0)

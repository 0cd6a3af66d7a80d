"""Objectives: what a model learns to predict, as values.

An objective is a pure function `(ids, rng) -> Batch`:

    ids (B,T+1) int     windows of a text, as they come: one token more than the model sees
    rng                 all chance comes from here: the same ids and the same seed give the same batch

It never writes to ids. NumPy only; the caller moves the batch to the device of the model.
"""

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from minigpt import ops
from minigpt.errors import InputError, check_whole


class Batch(NamedTuple):
    """What a model sees, and what it must predict. Every field but the first two may be None.

    ids (B,T) int64: what the model sees.
    targets (B,T) int64: the right token at each place; -100 (`ops.IGNORED`) where nothing is predicted.
    mask, boolean, of a shape that broadcasts to (B,1,T,T): may the query (row) see the key (column)? None: causal.
    segments (B,T) int64: which part of its input each token belongs to, 0 or 1. None: the model has no segments.
    positions (B,T) or (T,) int64: where each token stands. None: 0 to T-1.
    sentence_labels (B,) int64: 0 where the second segment continues the first, 1 where it comes from another text
    (the next-sentence prediction of BERT). None: this is not predicted.
    """

    ids: np.ndarray
    targets: np.ndarray
    mask: np.ndarray | None = None
    segments: np.ndarray | None = None
    positions: np.ndarray | None = None
    sentence_labels: np.ndarray | None = None

    @property
    def n_targets(self) -> int:
        """How many tokens are predicted."""
        return int((self.targets != ops.IGNORED).sum())

    @property
    def inputs(self) -> dict[str, np.ndarray]:
        """What a model is given beside ids and targets, by name: of the other fields those that are not None."""
        others = {name: getattr(self, name) for name in self._fields[2:]}
        return {name: value for name, value in others.items() if value is not None}

    def rows(self, part: slice) -> "Batch":
        """Some rows of the batch. A mask or positions that all rows share stay whole."""
        values = []
        for value in self:
            if value is not None and len(value) == len(self.ids):
                value = value[part]
            values.append(value)
        return Batch(*values)


Objective = Callable[[np.ndarray, np.random.Generator], Batch]


def causal(ids: np.ndarray, rng: np.random.Generator) -> Batch:
    """ids (B,T+1) -> each token predicts the next one (GPT-1 section 3.1). Uses no chance."""
    ids = ids.astype(np.int64)
    return Batch(ids[:, :-1], ids[:, 1:])


def masked(
    mask_id: int,
    vocab_size: int,
    rate: float = 0.15,
    special_ids: Sequence[int] = (),
) -> Objective:
    """The masked language model of BERT (Devlin et al. 2018, section 3.1): predict tokens that are covered.

    The objective maps ids (B,T+1) to a batch of their first T tokens. In each row round(rate * T) of them, at least
    one, are covered: 80 % become mask_id, 10 % a random token of the vocabulary, 10 % stay. Only covered tokens are
    predicted, and every token sees every other. special_ids, such as separators, are never covered.

    Raises InputError for a vocab_size below 1, for a mask_id outside the vocabulary, and for a rate that is not above 0
    and at most 1.
    """
    check_whole("vocab_size", vocab_size, "a whole number of 1 or more", least=1)
    check_whole("mask_id", mask_id, f"a token of the vocabulary, 0 to {vocab_size - 1}", below=vocab_size)
    if not 0 < rate <= 1:
        raise InputError(f"rate {rate}: choose a share of the tokens above 0 and at most 1, such as 0.15")

    def objective(ids: np.ndarray, rng: np.random.Generator) -> Batch:
        ids = ids[:, :-1].astype(np.int64)
        covered = _drawn(ids, rate, special_ids, rng)
        chance = rng.random(ids.shape)
        random_ids = rng.integers(vocab_size, size=ids.shape)
        seen = np.where(covered & (chance < 0.8), mask_id, ids)
        seen = np.where(covered & (chance >= 0.9), random_ids, seen)
        targets = np.where(covered, ids, ops.IGNORED)
        n = ids.shape[1]
        everything = np.ones((1, 1, n, n), bool)
        return Batch(seen, targets, everything)

    return objective


def _drawn(
    ids: np.ndarray,
    rate: float,
    special_ids: Sequence[int],
    rng: np.random.Generator,
) -> np.ndarray:
    """(B,T) bool: round(rate * T) places of each row, at least one, drawn at random among those of no special token."""
    n = max(1, round(rate * ids.shape[1]))
    special = np.isin(ids, special_ids)
    order = rng.random(ids.shape)
    order[special] = 1  # all others come first: they are below 1
    first = order.argsort(axis=1)[:, :n]
    drawn = np.zeros(ids.shape, bool)
    np.put_along_axis(drawn, first, True, axis=1)
    return drawn & ~special


def sentence_pairs(
    mask_id: int,
    vocab_size: int,
    start_id: int,
    separator_id: int,
    rate: float = 0.15,
) -> Objective:
    """Both tasks of BERT (Devlin et al. 2018, section 3.1): covered tokens, and does the second part follow the first?

    The objective maps ids (B,T+1) to rows `start, first part, separator, second part, separator` of T tokens. Half of
    the second parts continue the row (label 0), half come from another row (label 1). Then tokens are covered as
    `masked` does. Raises InputError for fewer than 2 rows or 5 tokens, and as `masked` does.
    """
    cover = masked(mask_id, vocab_size, rate, special_ids=(start_id, separator_id))

    def objective(ids: np.ndarray, rng: np.random.Generator) -> Batch:
        b, t = len(ids), ids.shape[1] - 1
        _check_pairs(b, t)
        middle = (t - 3) // 2
        labels = rng.integers(2, size=b)
        away = labels * rng.integers(1, b, size=b)  # how many rows further down the second part comes from
        second_rows = (np.arange(b) + away) % b
        start = np.full((b, 1), start_id)
        separator = np.full((b, 1), separator_id)
        first = ids[:, :middle]
        second = ids[second_rows, middle : t - 3]
        pairs = np.concatenate([start, first, separator, second, separator, separator], axis=1)
        segments = np.where(np.arange(t) > middle + 1, 1, 0)
        segments = np.broadcast_to(segments, (b, t))
        return cover(pairs, rng)._replace(segments=segments, sentence_labels=labels)

    return objective


def _check_pairs(n_rows: int, n_tokens: int) -> None:
    if n_rows < 2:
        raise InputError(f"{n_rows} row: a second part may come from another row, so give 2 or more")
    if n_tokens < 5:
        raise InputError(f"{n_tokens} tokens: two parts and three special tokens need room, so give 5 or more")

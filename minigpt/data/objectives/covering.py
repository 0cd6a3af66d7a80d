"""Objectives that cover tokens: the model tells what stood there."""

from collections.abc import Sequence

import numpy as np

from minigpt import ops
from minigpt.data.objectives.batch import Batch, Objective
from minigpt.errors import InputError, check_whole


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

"""Objectives on two texts that say the same: one is the source, and a decoder writes the other."""

from collections.abc import Iterable
from typing import Any

import numpy as np

from minigpt import ops
from minigpt.data.objectives.batch import Batch, Objective
from minigpt.data.objectives.covering import masked
from minigpt.data.objectives.restoring import filled_up
from minigpt.errors import InputError

Texts = Iterable[Any]  # rows of ids, of any lengths


def paired(
    sources: Texts,
    targets: Texts,
    start_id: int,
    end_id: int,
    pad_id: int,
) -> Batch:
    """B sources and B texts that they become, of any lengths -> a batch for an encoder-decoder.

    The decoder sees start_id, and then its targets one place late; they end with end_id. What fills up a shorter row is
    pad_id: in the source it is hidden by source_mask, behind the targets it is not predicted. Raises InputError where
    there is no pair, a source is empty, or one list is longer.
    """
    sources = [np.asarray(row, np.int64) for row in sources]
    targets = [np.append(np.asarray(row, np.int64), end_id) for row in targets]
    _check_pairs(sources, targets)
    source, source_mask = filled_up(sources, pad_id)
    wanted, is_text = filled_up(targets, pad_id)
    start = np.full((len(wanted), 1), start_id)
    seen = np.concatenate([start, wanted[:, :-1]], axis=1)
    predicted = np.where(is_text, wanted, ops.IGNORED)
    return Batch(seen, predicted, source=source, source_mask=source_mask)


def _check_pairs(sources: list[np.ndarray], targets: list[np.ndarray]) -> None:
    if not sources or len(sources) != len(targets):
        raise InputError(f"{len(sources)} sources and {len(targets)} targets: give one target for each source")
    for number, source in enumerate(sources):
        if not len(source):
            raise InputError(f"source number {number}, counted from 0, holds no token: leave the pair out")


def translated(
    separator_id: int,
    line_end_id: int,
    start_id: int,
    end_id: int,
    pad_id: int,
) -> Objective:
    """Translation: each line of the text is `source separator target`, and the decoder writes the target.

    The objective maps ids (B,T+1) to a batch as `paired` does. Of each window it takes one line, the first that is
    whole; where no line end comes before one, the window is taken to begin with a line. In a row whose window holds no
    whole line nothing is predicted.
    """

    def objective(ids: np.ndarray, rng: np.random.Generator) -> Batch:
        sources, targets, has_pair = [], [], []
        for row in ids:
            pair = first_pair(row, separator_id, line_end_id)
            source, target = pair or ([pad_id], [])
            sources.append(source)
            targets.append(target)
            has_pair.append(pair is not None)
        batch = paired(sources, targets, start_id, end_id, pad_id)
        predicted = np.where(np.array(has_pair)[:, None], batch.targets, ops.IGNORED)
        return batch._replace(targets=predicted)

    return objective


def covered_translations(
    mask_id: int,
    vocab_size: int,
    separator_id: int,
    line_end_id: int,
    rate: float = 0.15,
) -> Objective:
    """Translation language modelling (Conneau and Lample 2019, section 3.4): words of both sentences are covered.

    Each line of the text is `sentence separator translation`. A row is the pair that `first_pair` finds, each of the
    two with its line end or separator; segments tell the language, 0 or 1, and positions count from 0 in both. What
    fills up a row is hidden by the mask; a window without a whole line of T tokens or fewer is hidden but for its first
    token, and nothing is predicted there. Raises InputError as `masked` does.
    """
    cover = masked(mask_id, vocab_size, rate, special_ids=(separator_id, line_end_id))

    def objective(ids: np.ndarray, rng: np.random.Generator) -> Batch:
        rows, first_lengths = [], []
        for row in ids:
            source, target = first_pair(row, separator_id, line_end_id) or ([], [])
            if len(source) + len(target) + 2 == len(row):  # one token more than the positions of a model
                source, target = [], []
            rows.append(np.array([*source, separator_id, *target, line_end_id], np.int64))
            first_lengths.append([len(source) + 1])
        filled, is_text = filled_up(rows, line_end_id)
        batch = cover(np.pad(filled, ((0, 0), (0, 1))), rng)
        place = np.broadcast_to(np.arange(filled.shape[1]), filled.shape)
        second = place >= first_lengths
        positions = np.where(second, place - first_lengths, place)
        return batch._replace(mask=is_text, segments=second.astype(np.int64), positions=positions)

    return objective


def first_pair(row: np.ndarray, separator_id: int, line_end_id: int) -> tuple[np.ndarray, np.ndarray] | None:
    """row (N,) -> what stands before and behind the separator of the first whole line, or None where there is none

    The first line of the row, whose beginning may be cut off, is taken last.
    """
    lines = np.split(row, np.flatnonzero(row == line_end_id) + 1)[:-1]  # what comes last has no line end
    for line in lines[1:] + lines[:1]:
        separators = np.flatnonzero(line == separator_id)
        if len(separators) != 1:
            continue
        source, target = np.split(line[:-1], separators)
        target = target[1:]
        if len(source) and len(target):
            return source, target
    return None

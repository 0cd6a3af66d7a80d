"""Objectives on two texts that say the same: one is the source, and a decoder writes the other."""

from collections.abc import Iterable, Sequence

import numpy as np

from minigpt import ops
from minigpt.data.objectives.batch import Batch, Objective
from minigpt.data.objectives.restoring import filled_up
from minigpt.errors import InputError


def paired(
    sources: Iterable[Sequence[int]], targets: Iterable[Sequence[int]], start_id: int, end_id: int, pad_id: int
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
    return Batch(seen, np.where(is_text, wanted, ops.IGNORED), source=source, source_mask=source_mask)


def _check_pairs(sources: list[np.ndarray], targets: list[np.ndarray]) -> None:
    if not sources or len(sources) != len(targets):
        raise InputError(f"{len(sources)} sources and {len(targets)} targets: give one target for each source")
    if not all(map(len, sources)):
        number = list(map(len, sources)).index(0)
        raise InputError(f"source number {number}, counted from 0, holds no token: leave the pair out")


def translated(separator_id: int, line_end_id: int, start_id: int, end_id: int, pad_id: int) -> Objective:
    """Translation: each line of the text is `source separator target`, and the decoder writes the target.

    The objective maps ids (B,T+1) to a batch as `paired` does. Of each window it takes one line, the first that is
    whole; where no line end comes before one, the window is taken to begin with a line. In a row whose window holds no
    whole line nothing is predicted.
    """

    def objective(ids: np.ndarray, rng: np.random.Generator) -> Batch:
        pairs = [first_pair(row, separator_id, line_end_id) for row in ids.astype(np.int64)]
        nothing = np.array([pad_id])
        sources = [nothing if pair is None else pair[0] for pair in pairs]
        targets = [nothing[:0] if pair is None else pair[1] for pair in pairs]
        batch = paired(sources, targets, start_id, end_id, pad_id)
        has_pair = np.array([pair is not None for pair in pairs])
        return batch._replace(targets=np.where(has_pair[:, None], batch.targets, ops.IGNORED))

    return objective


def first_pair(row: np.ndarray, separator_id: int, line_end_id: int) -> tuple[np.ndarray, np.ndarray] | None:
    """row (N,) -> what stands before and behind the separator of the first whole line, or None where there is none

    The first line of the row, whose beginning may be cut off, is taken last.
    """
    lines = np.split(row, np.flatnonzero(row == line_end_id) + 1)[:-1]  # what comes last has no line end
    for line in lines[1:] + lines[:1]:
        separators = np.flatnonzero(line == separator_id)
        if len(separators) == 1 and 0 < separators[0] < len(line) - 2:
            source, target = np.split(line[:-1], separators)
            return source, target[1:]
    return None

"""Objectives on two sentences: do they belong together?"""

import numpy as np

from minigpt.data.objectives.batch import Batch, Objective
from minigpt.data.objectives.covering import Places, masked
from minigpt.errors import InputError


def sentence_pairs(
    mask_id: int,
    vocab_size: int,
    start_id: int,
    separator_id: int,
    rate: float = 0.15,
    places: Places | None = None,
) -> Objective:
    """Both tasks of BERT (Devlin et al. 2018, section 3.1): covered tokens, and does the second part follow the first?

    The objective maps ids (B,T+1) to rows `start, first part, separator, second part, separator` of T tokens. Half of
    the second parts continue the row (label 0), half come from another row (label 1). Then tokens are covered as
    `masked` does; places: which tokens are drawn. Raises InputError for fewer than 2 rows or 5 tokens, and as `masked`
    does.
    """
    cover = masked(mask_id, vocab_size, rate, special_ids=(start_id, separator_id), places=places)

    def objective(ids: np.ndarray, rng: np.random.Generator) -> Batch:
        b = len(ids)
        if b < 2:
            raise InputError(f"{b} row: a second part may come from another row, so give 2 or more")
        first, second = _halves(ids)
        labels = rng.integers(2, size=b)
        away = labels * rng.integers(1, b, size=b)  # how many rows further down the second part comes from
        second = second[(np.arange(b) + away) % b]
        pairs, segments = _joined(first, second, start_id, separator_id)
        return cover(pairs, rng)._replace(segments=segments, sentence_labels=labels, share=1.0)

    return objective


def sentence_order(
    mask_id: int,
    vocab_size: int,
    start_id: int,
    separator_id: int,
    rate: float = 0.15,
    places: Places | None = None,
) -> Objective:
    """ALBERT's two tasks (Lan et al. 2020, section 3.1): covered tokens, and which of two neighbouring parts was first?

    As `sentence_pairs`, but both parts come from one row: half of them in their sequence (label 0), half exchanged
    (label 1). Where their number of tokens is odd, a row that is exchanged is parted one token later, so that the part
    that comes first has the same length in all rows: the place of the separator does not tell the label. Raises
    InputError for fewer than 5 tokens, and as `masked` does.
    """
    cover = masked(mask_id, vocab_size, rate, special_ids=(start_id, separator_id), places=places)

    def objective(ids: np.ndarray, rng: np.random.Generator) -> Batch:
        first, second = _halves(ids)
        end = first.shape[1] + second.shape[1]
        parted_at = second.shape[1]
        earlier = ids[:, :parted_at]
        later = ids[:, parted_at:end]
        labels = rng.integers(2, size=len(ids))
        is_exchanged = labels[:, None] == 1
        pairs, segments = _joined(first, second, start_id, separator_id)
        exchanged_pairs, _ = _joined(later, earlier, start_id, separator_id)
        pairs = np.where(is_exchanged, exchanged_pairs, pairs)
        return cover(pairs, rng)._replace(segments=segments, sentence_labels=labels, share=1.0)

    return objective


def _halves(ids: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """ids (B,T+1) -> two parts with T - 3 tokens together, so that three special tokens have room"""
    t = ids.shape[1] - 1
    if t < 5:
        raise InputError(f"{t} tokens: two parts and three special tokens need room, so give 5 or more")
    middle = (t - 3) // 2
    return ids[:, :middle], ids[:, middle : t - 3]


def _joined(
    first: np.ndarray, second: np.ndarray, start_id: int, separator_id: int
) -> tuple[np.ndarray, np.ndarray]:
    """Rows `start, first, separator, second, separator`, with one token more, for `masked`; and their segments."""
    b = len(first)
    start = np.full((b, 1), start_id)
    separator = np.full((b, 1), separator_id)
    pairs = np.concatenate([start, first, separator, second, separator, separator], axis=1)
    n_tokens = pairs.shape[1] - 1
    is_second = np.arange(n_tokens) > first.shape[1] + 1
    segments = np.broadcast_to(is_second.astype(np.int64), (b, n_tokens))
    return pairs, segments

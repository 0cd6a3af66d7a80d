"""Objectives on two sentences: do they belong together?"""

import numpy as np

from minigpt.data.objectives.batch import Batch, Objective
from minigpt.data.objectives.covering import masked
from minigpt.errors import InputError


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

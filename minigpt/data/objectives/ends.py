"""Texts that begin and end with a token of their own, as BERT's do with [CLS] and [SEP]."""

import numpy as np

from minigpt.data.objectives.batch import Batch, Objective
from minigpt.errors import InputError


def between(start_id: int, end_id: int, objective: Objective) -> Objective:
    """The same objective on windows that begin with one token and end with another (Devlin et al. 2018, section 3.1).

    It maps ids (B,T+1) to what the objective gives for start_id, the first T-2 of ids, and end_id. The objective must
    know both as special_ids, so that they are not predicted. Raises InputError for windows of fewer than three tokens.
    """

    def with_ends(ids: np.ndarray, rng: np.random.Generator) -> Batch:
        t = ids.shape[1] - 1
        if t < 3:
            raise InputError(f"a window of {t} has no room for a token between {start_id} and {end_id}: give 3 or more")
        inside = ids[:, : t - 2].astype(np.int64)
        rows = len(ids)
        start, end = np.full((rows, 1), start_id), np.full((rows, 1), end_id)
        behind = end  # an objective leaves the last token of a window out
        return objective(np.concatenate([start, inside, end, behind], axis=1), rng)

    return with_ends

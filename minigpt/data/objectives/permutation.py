"""The objective of XLNet: tokens are predicted one after the other, in a sequence that is drawn anew for each text."""

from collections.abc import Sequence

import numpy as np

from minigpt import ops
from minigpt.data.objectives.batch import Batch, Objective
from minigpt.errors import InputError


def permuted(rate: float = 1 / 6, special_ids: Sequence[int] = ()) -> Objective:
    """Permutation language modelling (Yang et al. 2019, sections 2.2 and 2.3).

    The objective maps ids (B,T+1) to a batch of their first T tokens, which all stay in their places. In each row
    round(rate * T) tokens, at least one, are predicted, the last of a random sequence; all others come before them. A
    token's content may be used where it comes earlier in this sequence: by the content stream at its own place too
    (mask), by the query stream not (query_mask). The authors' code predicts spans; here each token is drawn for itself.
    As there, what is not predicted sees all else that is not. special_ids, such as separators, are never predicted.
    Raises InputError for a rate outside (0, 1).
    """
    if not 0 < rate < 1:
        raise InputError(f"rate {rate}: choose a share of the tokens above 0 and below 1, such as 1/6")

    def objective(ids: np.ndarray, rng: np.random.Generator) -> Batch:
        ids = ids[:, :-1].astype(np.int64)
        t = ids.shape[1]
        n = max(1, round(rate * t))
        special = np.isin(ids, special_ids)
        drawn = np.where(special, -1, rng.random(ids.shape))  # special tokens come first
        sequence = drawn.argsort(axis=1).argsort(axis=1)  # when each token comes, from 0
        rank = np.maximum(sequence - (t - n) + 1, 0)  # 0 for all that is given, 1 to n for what is predicted
        query, key = rank[:, None, :, None], rank[:, None, None, :]
        targets = np.where((rank > 0) & ~special, ids, ops.IGNORED)
        return Batch(ids, targets, mask=key <= query, query_mask=key < query)

    return objective

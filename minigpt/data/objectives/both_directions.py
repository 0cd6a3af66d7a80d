"""The objective of ELMo: each token is predicted from its left, and from its right."""

import numpy as np

from minigpt import ops
from minigpt.data.objectives.batch import Batch


def both_directions(ids: np.ndarray, rng: np.random.Generator) -> Batch:
    """ids (B,T+1) -> each place predicts the token behind it and the one before it (Peters et al. 2018, section 3.1)

    Nothing stands before the first place, and the last one predicts nothing behind it, so that both directions have as
    many targets. Uses no chance.
    """
    ids = ids[:, :-1].astype(np.int64)
    nothing = np.full((len(ids), 1), ops.IGNORED)
    following = np.concatenate([ids[:, 1:], nothing], axis=1)
    previous = np.concatenate([nothing, ids[:, :-1]], axis=1)
    return Batch(ids, following, previous=previous)

"""The objective of instruction tuning: a model learns to write the response, and not the instruction before it."""

import numpy as np

from minigpt import ops
from minigpt.data.objectives.batch import Batch, Objective
from minigpt.errors import InputError, check_whole


def responses(delimiter_id: int, end_id: int) -> Objective:
    """Supervised fine-tuning on instructions: each document is `instruction delimiter response end`.

    The objective maps ids (B,T+1) to a batch of their first T tokens, each of which predicts the next one, as in
    `causal`. But only the tokens of responses count, and the end of each; all other targets are -100. So the delimiter
    predicts the first token of its response. A window that begins inside a response, whose delimiter was cut off,
    counts nothing until the next delimiter: the model would have to write a response to what it cannot see. Uses no
    chance. (The loss on a part of the tokens: `ops.cross_entropy`. Supervised fine-tuning: InstructGPT, Ouyang et al.
    2022, section 3.5, which does not say whether the tokens of the instruction count.)

    Raises InputError for a token that is no whole number of 0 or more, and where both are the same token.
    """
    check_whole("delimiter_id", delimiter_id, "a token, a whole number of 0 or more")
    check_whole("end_id", end_id, "a token, a whole number of 0 or more")
    if delimiter_id == end_id:
        raise InputError(f"delimiter and end are both token {end_id}: give two tokens, so that a response has an end")

    def objective(ids: np.ndarray, rng: np.random.Generator) -> Batch:
        ids = ids.astype(np.int64)
        seen = ids[:, :-1]
        begun = last_place(seen == delimiter_id)
        ended = last_place(seen == end_id)
        targets = np.where(begun > ended, ids[:, 1:], ops.IGNORED)
        return Batch(seen, targets)

    return objective


def last_place(marked: np.ndarray) -> np.ndarray:
    """marked (B,T) boolean -> (B,T): for each place the last marked one up to it, -1 where there is none"""
    place = np.arange(marked.shape[1])
    return np.maximum.accumulate(np.where(marked, place, -1), axis=1)

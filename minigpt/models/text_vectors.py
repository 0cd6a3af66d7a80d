"""One vector for a text: the mean of its hidden states (Reimers and Gurevych 2019, section 3), of length 1.

The product of two such vectors is the cosine of their angle: 1 for texts that the model reads alike.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence

import numpy as np

from minigpt.device.arrays import to_numpy
from minigpt.errors import InputError
from minigpt.models.language_model import LanguageModel
from minigpt.models.token_ids import first_places

POOLS = ("mean", "first")
TOKENS = 4096  # in a batch at most, with what fills up its shorter rows

Progress = Callable[[Iterable[np.ndarray]], Iterable[np.ndarray]]


def text_vectors(
    model: LanguageModel, rows: Sequence[Sequence[int]], pool: str = "mean", progress: Progress = iter,
    segments: Sequence[Sequence[int]] = (),
) -> np.ndarray:
    """N rows of ids, of any lengths -> (N,C) float32, one vector of length 1 for each

    pool: "mean" of the states of all tokens of a row, the special ones too; "first": the state of the first token.
    progress: is given the batches, each an array of row numbers, and yields them, as tqdm does. segments: of each row,
    as long as it; () is 0 everywhere. Texts of like length are read together. Raises InputError for a row without
    tokens or with more than the model has positions, and for the first token of a model in which it sees no other.
    """
    check_pool(model, pool)
    vectors = np.zeros((len(rows), model.state_width), np.float32)
    for batch in progress(list(_batches([len(row) for row in rows]))):
        lengths = np.array([len(rows[i]) for i in batch])
        if not lengths.min():
            raise InputError("a text without tokens has no vector: leave it out")
        inputs = model.inputs_of_segments(_filled(segments, batch)) if segments else {}
        h = to_numpy(model.states(_filled(rows, batch), lengths, **inputs))
        vectors[batch] = _pooled(h, lengths, pool)
    return vectors


def check_pool(model: LanguageModel, pool: str) -> None:
    """Raises InputError for a name that is none of POOLS, and for "first" of a model that reads from left to right."""
    if pool not in POOLS:
        raise InputError(f"pool is {pool!r}: choose {' or '.join(POOLS)}")
    lengths = np.array([2, 3])
    if pool == "first" and (model.reads_a_source or model.place_of_state(lengths).any()):
        kind = type(model).__name__
        raise InputError(f"pool is 'first': in {kind} the first token does not stand for the text: choose mean")


def _batches(lengths: Sequence[int]) -> Iterator[np.ndarray]:
    """Numbers of rows, the longest first, so many together that none of their tokens times rows is above TOKENS."""
    order = np.argsort(-np.array(lengths), kind="stable")
    start = 0
    while start < len(order):
        n = max(1, TOKENS // max(1, lengths[order[start]]))
        yield order[start : start + n]
        start += n


def _filled(rows: Sequence[Sequence[int]], batch: np.ndarray) -> np.ndarray:
    """The rows with these numbers -> (N,T) int, filled up with 0 at the right"""
    chosen = [rows[i] for i in batch]
    filled = np.zeros((len(chosen), max(map(len, chosen))), np.int64)
    for place, row in enumerate(chosen):
        filled[place, : len(row)] = row
    return filled


def _pooled(h: np.ndarray, lengths: np.ndarray, pool: str) -> np.ndarray:
    """h (N,T,C), lengths (N,) -> (N,C), each of length 1"""
    if pool == "first":
        vectors = h[:, 0]
    else:
        is_text = first_places(lengths, h.shape[1])
        sums = np.where(is_text[..., None], h, 0).sum(axis=1)
        vectors = sums / lengths[:, None]
    norms = np.linalg.norm(vectors, axis=-1, keepdims=True)
    return vectors / np.maximum(norms, 1e-12)

"""Objectives that cover tokens: the model tells what stood there."""

import zlib
from collections.abc import Callable, Sequence

import numpy as np

from minigpt import ops
from minigpt.data.objectives.batch import Batch, Objective
from minigpt.errors import InputError, check_whole

Places = Callable[[np.ndarray, int, np.random.Generator], np.ndarray]  # (ids (B,T), how many, rng) -> (B,T) boolean

SPAN_LENGTHS = np.arange(1, 11)  # and their chances, geometric with p = 0.2: 3.8 on average (SpanBERT section 3.1)
_geometric = 0.2 * 0.8 ** (SPAN_LENGTHS - 1)
SPAN_CHANCES = _geometric / _geometric.sum()


def masked(
    mask_id: int,
    vocab_size: int,
    rate: float = 0.15,
    special_ids: Sequence[int] = (),
    places: Places | None = None,
) -> Objective:
    """The masked language model of BERT (Devlin et al. 2018, section 3.1): predict tokens that are covered.

    The objective maps ids (B,T+1) to a batch of their first T tokens. In each row round(rate * T) of them, at least
    one, are covered: 80 % become mask_id, 10 % a random token of the vocabulary, 10 % stay. Only covered tokens are
    predicted, and every token sees every other. special_ids, such as separators, are never covered. places: which
    tokens are drawn; None: each for itself, at random.

    Raises InputError for a vocab_size below 1, for a mask_id outside the vocabulary, and for a rate that is not above 0
    and at most 1.
    """
    check_covering(mask_id, vocab_size, rate)
    draw = places or single_tokens

    def objective(ids: np.ndarray, rng: np.random.Generator) -> Batch:
        ids = ids[:, :-1].astype(np.int64)
        n = max(1, round(rate * ids.shape[1]))
        free = np.where(np.isin(ids, special_ids), -1, ids)
        covered = draw(free, n, rng)
        chance = rng.random(ids.shape)
        seen = corrupted(ids, covered, chance, mask_id, vocab_size, rng)
        targets = np.where(covered, ids, ops.IGNORED)
        return Batch(seen, targets, everything(ids.shape[1]))

    return objective


def check_covering(mask_id: int, vocab_size: int, rate: float) -> None:
    """Raises InputError for a token outside the vocabulary, and for a rate that is not above 0 and at most 1."""
    check_whole("vocab_size", vocab_size, "a whole number of 1 or more", least=1)
    check_whole("mask_id", mask_id, f"a token of the vocabulary, 0 to {vocab_size - 1}", below=vocab_size)
    if not 0 < rate <= 1:
        raise InputError(f"rate {rate}: choose a share of the tokens above 0 and at most 1, such as 0.15")


def corrupted(
    ids: np.ndarray, covered: np.ndarray, chance: np.ndarray, mask_id: int, vocab_size: int, rng: np.random.Generator
) -> np.ndarray:
    """ids (B,T) -> the same, where of the covered ones 80 % are mask_id, 10 % random tokens and 10 % as they were

    chance (B,T): uniform numbers that decide it, equal for tokens that share their fate.
    """
    random_ids = rng.integers(vocab_size, size=ids.shape)
    seen = np.where(covered & (chance < 0.8), mask_id, ids)
    return np.where(covered & (chance >= 0.9), random_ids, seen)


def everything(n: int) -> np.ndarray:
    """(1,1,n,n) boolean: every token sees every other."""
    return np.ones((1, 1, n, n), bool)


# ------------------------------------------------------------------------------------------------ which are covered


def single_tokens(ids: np.ndarray, n: int, rng: np.random.Generator) -> np.ndarray:
    """(B,T) boolean: n places of each row, each drawn for itself. ids (B,T): -1 where a token is never covered."""
    order = rng.random(ids.shape)
    order[ids < 0] = 1  # all others come first: they are below 1
    first = order.argsort(axis=1)[:, :n]
    drawn = np.zeros(ids.shape, bool)
    np.put_along_axis(drawn, first, True, axis=1)
    return drawn & (ids >= 0)


def whole_words(ends_word: np.ndarray) -> Places:
    """All tokens of a word are covered, or none (BERT's release of May 2019, whole word masking).

    ends_word (V,) boolean: does a word end with this token? Words are drawn at random until n tokens are covered; the
    last one is left out if it is too long for what remains.
    """

    def draw(ids: np.ndarray, n: int, rng: np.random.Generator) -> np.ndarray:
        ends = ends_word[ids] | (ids < 0)
        word = ends.cumsum(axis=1) - ends  # the number of each token's word
        drawn = np.zeros(ids.shape, bool)
        for row, words in enumerate(word):
            for one in rng.permutation(words[-1] + 1):
                tokens = (words == one) & (ids[row] >= 0)
                if drawn[row].sum() + tokens.sum() <= n:
                    drawn[row] |= tokens
        return drawn

    return draw


def n_grams(longest: int = 3) -> Places:
    """Neighbouring tokens are covered together, N of them with a chance in proportion to 1/N (ALBERT section 4.1).

    Stretches are drawn until n tokens are covered; they may touch, and the last one is cut to fit. Raises InputError
    for a longest stretch below 1.
    """
    check_whole("longest", longest, "a whole number of 1 or more, such as 3", least=1)
    lengths = np.arange(1, longest + 1)
    chances = (1 / lengths) / (1 / lengths).sum()

    def draw(ids: np.ndarray, n: int, rng: np.random.Generator) -> np.ndarray:
        drawn = np.zeros(ids.shape, bool)
        for row, free in enumerate(ids >= 0):
            left = min(n, int(free.sum()))
            while left:
                start = rng.choice(np.flatnonzero(free))
                length = min(int(rng.choice(lengths, p=chances)), left)
                stretch = slice(start, start + length)
                drawn[row, stretch] |= free[stretch]
                left -= int(free[stretch].sum())
                free[stretch] = False
        return drawn

    return draw


def fixed(objective: Objective) -> Objective:
    """The same tokens of a window are covered each time it is seen, as in BERT's data, which were covered beforehand.

    (RoBERTa, Liu et al. 2019, section 4.1: static against dynamic masking.) The chance of each row comes from its
    tokens, not from rng.
    """

    def with_its_own_chance(ids: np.ndarray, rng: np.random.Generator) -> Batch:
        rows = []
        for row in ids.astype(np.int64):
            seed = zlib.crc32(row.tobytes())
            rows.append(objective(row[None], np.random.default_rng(seed)))
        seen = np.concatenate([row.ids for row in rows])
        targets = np.concatenate([row.targets for row in rows])
        return rows[0]._replace(ids=seen, targets=targets)

    return with_its_own_chance


# ------------------------------------------------------------------------------------------------------------- spans


def spans(mask_id: int, vocab_size: int, rate: float = 0.15, special_ids: Sequence[int] = ()) -> Objective:
    """Spans of neighbouring tokens are covered (SpanBERT, Joshi et al. 2020, section 3.1).

    A span has 1 to 10 tokens, 3.8 on average; short ones are more frequent. They are drawn until round(rate * T) tokens
    of a row are covered. They do not touch, and have a token on both sides, from which `span_edges` say where the
    boundary objective starts. All tokens of a span share their fate: covered, replaced, or unchanged. Otherwise, and
    for what is raised, as `masked`.
    """
    check_covering(mask_id, vocab_size, rate)

    def objective(ids: np.ndarray, rng: np.random.Generator) -> Batch:
        ids = ids[:, :-1].astype(np.int64)
        n = max(1, round(rate * ids.shape[1]))
        free = ~np.isin(ids, special_ids)
        covered = np.zeros(ids.shape, bool)
        chance = np.zeros(ids.shape)
        edges = np.zeros((*ids.shape, 2), np.int64)
        places = np.zeros(ids.shape, np.int64)
        for row in range(len(ids)):
            for start, end in spans_in(free[row], n, rng):
                covered[row, start:end] = True
                chance[row, start:end] = rng.random()
                edges[row, start:end] = start - 1, end
                places[row, start:end] = np.arange(end - start)
        seen = corrupted(ids, covered, chance, mask_id, vocab_size, rng)
        targets = np.where(covered, ids, ops.IGNORED)
        return Batch(seen, targets, everything(ids.shape[1]), span_edges=edges, span_places=places)

    return objective


def spans_in(free: np.ndarray, n: int, rng: np.random.Generator) -> list[tuple[int, int]]:
    """Spans (start, end) of free (T,) tokens that do not touch, n tokens together, or fewer where no more fit."""
    free = free.copy()
    found = []
    while n > 0:
        length = min(int(rng.choice(SPAN_LENGTHS, p=SPAN_CHANCES)), n)
        starts = _starts(free, length)
        if not len(starts):
            length = 1
            starts = _starts(free, length)
        if not len(starts):
            return found
        start = int(rng.choice(starts))
        end = start + length
        found.append((start, end))
        free[start - 1 : end + 1] = False  # no other span touches this one
        n -= length
    return found


def _starts(free: np.ndarray, length: int) -> np.ndarray:
    """Where a span of this length can start: all of its tokens are free, and there is a token on both sides."""
    if length > len(free):
        return np.zeros(0, int)
    windows = np.lib.stride_tricks.sliding_window_view(free, length)
    starts = np.flatnonzero(windows.all(axis=1))
    return starts[(starts > 0) & (starts + length < len(free))]

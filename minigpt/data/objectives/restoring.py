"""Objectives of encoder-decoders: a source with noise goes in, and a decoder writes the text, or what it lacks.

A noise is a function `(row, rng) -> row` of token ids (N,) -> (M,), which may be shorter or longer.
"""

from collections.abc import Callable, Collection, Sequence
from typing import Any

import numpy as np

from minigpt.data.objectives.batch import Batch, Objective
from minigpt.data.objectives.covering import check_covering, corrupted
from minigpt.errors import InputError, check_number, check_share

Noise = Callable[[np.ndarray, np.random.Generator], np.ndarray]


def restored(noise: Noise, start_id: int, end_id: int, pad_id: int) -> Objective:
    """BART's objective (Lewis et al. 2020, section 2): write the whole text, whose source has noise.

    The objective maps ids (B,T+1) to a batch of their first T-1 tokens, those that the targets end with end_id after.
    The decoder sees start_id, and then its targets one place late. Sources are at most T tokens long; the shorter ones
    end in pad_id, which source_mask hides. Raises InputError for windows of fewer than 3 tokens.
    """

    def objective(ids: np.ndarray, rng: np.random.Generator) -> Batch:
        _check_room(ids.shape[1] - 1, least=2)
        text = ids[:, :-2].astype(np.int64)
        rows = [noise(row, rng)[: text.shape[1] + 1] for row in text]
        source, source_mask = filled_up(rows, pad_id)
        column = np.ones((len(ids), 1), np.int64)
        seen = np.concatenate([start_id * column, text], axis=1)
        targets = np.concatenate([text, end_id * column], axis=1)
        return Batch(seen, targets, source=source, source_mask=source_mask)

    return objective


def _check_room(n_tokens: int, least: int) -> None:
    if n_tokens < least:
        raise InputError(f"{n_tokens} tokens: a source and what is written beside it need {least} or more")


def filled_up(rows: Sequence[np.ndarray], filler: int) -> tuple[np.ndarray, np.ndarray]:
    """Rows of different lengths -> (B,S) int64, S that of the longest; and where it is no filler, (B,S) bool"""
    lengths = np.array([len(row) for row in rows])
    is_text = np.arange(lengths.max()) < lengths[:, None]
    filled = np.full(is_text.shape, filler, np.int64)
    filled[is_text] = np.concatenate(rows)
    return filled, is_text


# ------------------------------------------------------------------------------------- BART's five noises (section 2.2)


def token_masking(mask_id: int, rate: float = 0.3) -> Noise:
    """Some tokens become mask_id, a share `rate` of each row. Raises InputError for a rate that is no share."""
    check_share(rate=rate)

    def noise(row: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        places = rng.choice(len(row), round(rate * len(row)), replace=False)
        masked = row.copy()
        masked[places] = mask_id
        return masked

    return noise


def token_deletion(rate: float = 0.3) -> Noise:
    """Some tokens are left out, a share `rate` of each row, but never all: where, the model must find out.

    Raises InputError for a rate that is no share.
    """
    check_share(rate=rate)

    def noise(row: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        n = min(round(rate * len(row)), len(row) - 1)
        places = rng.choice(len(row), n, replace=False)
        return np.delete(row, places)

    return noise


def text_infilling(mask_id: int, rate: float = 0.3, mean_length: float = 3.0) -> Noise:
    """Spans become a single mask_id each, a share `rate` of each row: how many tokens, the model must find out.

    Lengths are Poisson; a span of length 0 puts a mask between two tokens. The last span is cut to fit the share.
    Raises InputError for a rate that is no share, and for a mean length of 0 or less.
    """
    check_share(rate=rate)
    check_number("mean_length", mean_length, "a number above 0, such as 3", above=0)

    def noise(row: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        lengths = span_lengths(round(rate * len(row)), mean_length, rng)
        kept = len(row) - sum(lengths)
        is_span = np.arange(kept + len(lengths)) < len(lengths)
        is_span = rng.permutation(is_span)  # single tokens and spans, in any order
        widths = np.ones(len(is_span), np.int64)
        widths[is_span] = lengths
        begins = np.cumsum(widths) - widths
        tokens = np.append(row, mask_id)[begins]  # behind the row only a span of length 0 begins
        return np.where(is_span, mask_id, tokens)

    return noise


def span_lengths(n: int, mean: float, rng: np.random.Generator) -> list[int]:
    """Poisson numbers whose sum is n; the last one is cut to fit."""
    lengths = []
    while n > 0:
        length = min(int(rng.poisson(mean)), n)
        lengths.append(length)
        n -= length
    return lengths


def sentence_permutation(end_ids: Collection[int]) -> Noise:
    """The sentences of a row change places. end_ids: the tokens with which a sentence ends."""
    end_ids = np.array(sorted(end_ids))

    def noise(row: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        is_end = np.isin(row[:-1], end_ids)
        sentences = np.split(row, np.flatnonzero(is_end) + 1)
        order = rng.permutation(len(sentences))
        return np.concatenate([sentences[i] for i in order])

    return noise


def document_rotation() -> Noise:
    """The row begins with any of its tokens, and ends with what stood before: where it began, the model must find."""

    def noise(row: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        return np.roll(row, -rng.integers(len(row)))

    return noise


def one_after_the_other(*noises: Noise) -> Noise:
    """All of these noises, in this order."""

    def noise(row: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        for one in noises:
            row = one(row, rng)
        return row

    return noise


# ---------------------------------------------------------------------------------------------------- MASS: a fragment


def lost_fragment(mask_id: int, vocab_size: int, rate: float = 0.5) -> Objective:
    """MASS's objective (Song et al. 2019, section 3.2): write the fragment that the source has lost.

    The objective maps ids (B,T+1) to a batch whose sources are their first T tokens. A fragment of round(rate * T) of
    them is covered as in `masked`: 80 % become mask_id, 10 % a random token, 10 % stay. The decoder sees mask_id, and
    then the fragment one place late, at the positions that its targets have in the text. Raises InputError as `masked`.
    """
    check_covering(mask_id, vocab_size, rate)

    def objective(ids: np.ndarray, rng: np.random.Generator) -> Batch:
        text = ids[:, :-1].astype(np.int64)
        b, t = text.shape
        n = max(1, round(rate * t))
        places = fragment_starts(b, t - n, rng)[:, None] + np.arange(n)
        covered = np.zeros((b, t), bool)
        np.put_along_axis(covered, places, True, axis=1)
        source = corrupted(text, covered, rng.random((b, t)), mask_id, vocab_size, rng)
        fragment = np.take_along_axis(text, places, axis=1)
        start = np.full((b, 1), mask_id)
        seen = np.concatenate([start, fragment[:, :-1]], axis=1)
        return Batch(seen, fragment, positions=places, source=source)

    return objective


def fragment_starts(b: int, last: int, rng: np.random.Generator) -> np.ndarray:
    """(B,) int: 20 % of the fragments begin the text, 20 % end it, the others begin anywhere from 0 to last."""
    chance = rng.random(b)
    starts = rng.integers(last + 1, size=b)
    starts[chance < 0.2] = 0
    starts[chance >= 0.8] = last
    return starts


# ------------------------------------------------------------------------------------------------------- T5: spans


def lost_spans(
    sentinel_ids: Sequence[int], start_id: int, end_id: int, rate: float = 0.15, mean_length: float = 3.0
) -> Objective:
    """T5's objective (Raffel et al. 2020, section 3.3.4): write the spans that the source has lost.

    The objective maps ids (B,T+1) to a batch of their first T-1 tokens. A share `rate` of them is lost, in spans of
    mean_length on average; the same number of tokens and of spans in each row, of random lengths. Text and spans take
    turns, text first. In the source each span is one sentinel; the targets are sentinel, span, sentinel, span, ...;
    both end with end_id. The decoder sees start_id, and then its targets one place late.

    Raises InputError for a rate that is no share, for a mean length below 1, for windows of fewer than 3 tokens, and
    where a row has more spans than there are sentinels.
    """
    check_share(rate=rate)
    check_number("mean_length", mean_length, "a number of 1 or more, such as 3", least=1)

    def objective(ids: np.ndarray, rng: np.random.Generator) -> Batch:
        _check_room(ids.shape[1] - 1, least=3)
        text = ids[:, :-2].astype(np.int64)
        n, k = _lost_and_spans(text.shape[1], rate, mean_length, len(sentinel_ids))
        both = [with_sentinels(row, n, sentinel_ids[:k], rng) for row in text]
        end = np.full((len(text), 1), end_id)
        source = np.concatenate([[one for one, _ in both], end], axis=1)
        targets = np.concatenate([[other for _, other in both], end], axis=1)
        start = np.full((len(text), 1), start_id)
        seen = np.concatenate([start, targets[:, :-1]], axis=1)
        return Batch(seen, targets, source=source)

    return objective


def _lost_and_spans(length: int, rate: float, mean_length: float, n_sentinels: int) -> tuple[int, int]:
    """How many of so many tokens are lost, and in how many spans: at least one, with text before each."""
    n = min(max(round(rate * length), 1), length - 1)
    k = min(max(round(n / mean_length), 1), length - n)
    if k > n_sentinels:
        raise InputError(f"{length} tokens lose {k} spans, and there are {n_sentinels} sentinels: take shorter windows")
    return n, k


def with_sentinels(
    row: np.ndarray, n: int, sentinels: Sequence[int], rng: np.random.Generator
) -> tuple[np.ndarray, np.ndarray]:
    """row (T,) -> what is left of it, and the n tokens that are lost, with a sentinel for each change between them."""
    k = len(sentinels)
    widths = np.empty(2 * k, np.int64)
    widths[0::2] = random_parts(len(row) - n, k, rng)  # of text
    widths[1::2] = random_parts(n, k, rng)  # of spans
    pieces = np.split(row, np.cumsum(widths)[:-1])
    left: list[Any] = []
    lost: list[Any] = []
    for text, span, sentinel in zip(pieces[0::2], pieces[1::2], sentinels, strict=True):
        left += [text, [sentinel]]
        lost += [[sentinel], span]
    return np.concatenate(left), np.concatenate(lost)


def random_parts(n: int, k: int, rng: np.random.Generator) -> np.ndarray:
    """(k,) int: parts of 1 or more whose sum is n, all such divisions alike."""
    cuts = 1 + rng.choice(n - 1, k - 1, replace=False)
    return np.diff(np.sort(np.concatenate([[0], cuts, [n]])))

"""Batches of token ids. NumPy only; the caller moves them to the device of the model.

Every batch is a function of (seed, step): nothing is shuffled in place, so a run can stop and go on anywhere.
"""

from collections.abc import Iterator

import numpy as np

from minigpt import ops

Pair = tuple[np.ndarray, np.ndarray]  # ids (B,T) and targets (B,T), int64


def batch(
    tokens: np.ndarray,
    batch_size: int,
    context: int,
    seed: int,
    step: int,
    starts: np.ndarray | None = None,
    share: float = 0.0,
) -> Pair:
    """Random windows of tokens (N,): ids (B,T) and targets (B,T), int64, where targets are the ids one place on.

    B is batch_size, T is context, below N. A pure function of (seed, step): the choice comes from
    `default_rng([seed, step])`. With starts, which are indices into tokens with a whole window after each, about this
    share of the windows begins at one of them.
    """
    windows = random_windows(tokens, batch_size, context, seed, step, starts, share)
    return windows[:, :-1], windows[:, 1:]


def random_windows(
    tokens: np.ndarray,
    batch_size: int,
    context: int,
    seed: int,
    step: int,
    starts: np.ndarray | None = None,
    share: float = 0.0,
) -> np.ndarray:
    """The windows of `batch`, (B,T+1) int64: one token more than a model sees."""
    rng = np.random.default_rng([seed, step])
    begins = rng.integers(len(tokens) - context, size=batch_size)
    if share:
        assert starts is not None, "a share of windows begins at them"
        chosen = rng.random(batch_size) < share
        begins = np.where(chosen, rng.choice(starts, batch_size), begins)
    places = begins[:, None] + np.arange(context + 1)
    return tokens[places].astype(np.int64)


def whole_windows(tokens: np.ndarray, context: int, batch_size: int) -> Iterator[np.ndarray]:
    """Windows over tokens (N,), one behind the other: yields (B,T+1) int64. An end that fills no window is left out.

    The last token of a window is the first of the next. T is context; B is batch_size, or smaller in the last batch.
    """
    begins = np.arange(0, len(tokens) - context, context)
    for first in range(0, len(begins), batch_size):
        places = begins[first : first + batch_size, None] + np.arange(context + 1)
        yield tokens[places].astype(np.int64)


def windows(
    tokens: np.ndarray,
    context: int,
    batch_size: int,
    starts: np.ndarray | None = None,
) -> Iterator[Pair]:
    """Non-overlapping windows over all tokens (N,): yields ids (B,T) and targets (B,T), int64.

    T is context; B is batch_size, and may be smaller in the last batch. Every token but the first is a target exactly
    once. With starts, indices into tokens, a new window begins at each of them. Windows that end early are filled up
    with id 0 and targets of -100, which are not predicted.
    """
    begins, ends = _window_edges(len(tokens), context, starts)
    for first in range(0, len(begins), batch_size):
        part = slice(first, first + batch_size)
        places = begins[part, None] + np.arange(context)
        inside = places < ends[part, None]
        places = np.where(inside, places, 0)
        ids = tokens[places].astype(np.int64)
        targets = tokens[places + 1].astype(np.int64)
        yield np.where(inside, ids, 0), np.where(inside, targets, ops.IGNORED)


def _window_edges(n: int, context: int, starts: np.ndarray | None) -> Pair:
    """Where each window begins, and where it ends, among the first n - 1 of n tokens."""
    last = n - 1
    edges = [0, last]
    if starts is not None:
        edges.extend(starts)
    edges = np.unique(edges)
    begins = []
    for begin, end in zip(edges[:-1], edges[1:], strict=True):
        begins.append(np.arange(begin, end, context))
    begins = np.concatenate(begins)
    ends = np.append(begins[1:], last)
    return begins, ends

"""Batches of token ids. NumPy only; the caller moves them.

Every batch is a function of (seed, step): nothing is shuffled in place, so a run can stop and go on anywhere.
"""

from collections.abc import Iterator

import numpy as np

IGNORED = -100  # a target that is not predicted


def batch(
    tokens: np.ndarray, batch_size: int, context: int, seed: int, step: int, starts=None, share: float = 0.0
) -> tuple[np.ndarray, np.ndarray]:
    """Random windows: ids (B,T) and targets (B,T), int64, where targets are the ids one place on.

    A pure function of (seed, step): the choice comes from `default_rng([seed, step])`. With starts (indices into
    tokens, each with a whole window after it), about this share of the windows begins at one of them.
    """
    rng = np.random.default_rng([seed, step])
    begins = rng.integers(len(tokens) - context, size=batch_size)
    if share:
        begins = np.where(rng.random(batch_size) < share, rng.choice(starts, batch_size), begins)
    windows = tokens[begins[:, None] + np.arange(context + 1)].astype(np.int64)
    return windows[:, :-1], windows[:, 1:]


def windows(
    tokens: np.ndarray, context: int, batch_size: int, starts: np.ndarray | None = None
) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Non-overlapping windows over all tokens: yields ids (B,T) and targets (B,T), int64.

    Every token but the first is a target exactly once. With starts, a new window begins at each of them. Windows that
    end early are filled up with id 0 and targets of -100.
    """
    edges = np.unique([0, *([] if starts is None else starts), len(tokens) - 1])
    begins = np.concatenate([np.arange(a, b, context) for a, b in zip(edges[:-1], edges[1:], strict=True)])
    ends = np.append(begins[1:], len(tokens) - 1)
    for first in range(0, len(begins), batch_size):
        here = slice(first, first + batch_size)
        places = begins[here, None] + np.arange(context)
        inside = places < ends[here, None]
        ids, targets = (tokens[np.where(inside, places, 0) + shift].astype(np.int64) for shift in (0, 1))
        yield np.where(inside, ids, 0), np.where(inside, targets, IGNORED)

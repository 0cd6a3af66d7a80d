"""Generating text: one forward pass for each new token, with the keys and values of the tokens before it kept."""

from collections.abc import Iterator
from typing import Any

import numpy as np

from minigpt.device.arrays import to_numpy
from minigpt.errors import InputError
from minigpt.models import sampling
from minigpt.models.token_ids import pad_left


def generate(model, ids: Any, n_tokens: int, **options) -> np.ndarray | list[np.ndarray]:
    """ids (B,T) -> (B,T+N): the prompts and what follows them. Options: see `stream`.

    Prompts of different lengths, a list of B lists, come back as a list of B arrays (T_i+N,).
    """
    prompts, padding = pad_left(ids)
    columns = [prompts]
    for tokens in stream(model, ids, n_tokens, **options):
        columns.append(tokens[:, None])
    out = np.concatenate(columns, axis=1)
    if not padding.any():
        return out
    without_padding = []
    for row, n in zip(out, padding, strict=True):
        without_padding.append(row[n:])
    return without_padding


def stream(
    model,
    ids: Any,
    n_tokens: int,
    *,
    temperature: float = 1.0,
    top_k: int | None = None,
    top_p: float | None = None,
    seed: int = 0,
    stop: int | None = None,
    cache: bool = True,
) -> Iterator[np.ndarray]:
    """ids (B,T), or B lists of different lengths -> yields the next token of each row, (B,) int, n_tokens times

    model: a LanguageModel. temperature, top_k, top_p: see `sampling.next_tokens`. seed: row i draws from a generator
    of its own, seeded with (seed, i), on every device and among any number of rows. stop: a token id after which a row
    is finished; its later tokens are that id again, and the stream ends with the last row. Past the context the window
    slides: the oldest token is forgotten. cache=False reads everything again for each token: the same numbers, slowly.
    Raises InputError for a prompt without tokens and for options outside their range.
    """
    ids, padding = pad_left(ids)
    if n_tokens < 1 or seed < 0:
        raise InputError(f"n_tokens {n_tokens}, seed {seed}: give 1 token or more, and a seed of 0 or more")
    generators = [np.random.default_rng([seed, i]) for i in range(len(ids))]
    finished = np.zeros(len(ids), bool)
    context = model.config.n_positions
    room = min(context, ids.shape[1] + n_tokens - 1)
    past = None
    for _ in range(n_tokens):
        slid = max(0, ids.shape[1] - context)
        if past and cache and not slid:
            seen = ids[:, -1:]
        else:
            # Once the window slides, each of its tokens has a new position, on which all keys and values depend:
            # with absolute positions nothing of the past can be kept.
            seen = ids[:, -context:]
            past = model.new_past(room, np.maximum(padding - slid, 0))
        with model.exact():
            logits = model.next_logits(seen, past)
        uniform = np.array([generator.random() for generator in generators])
        chosen = sampling.next_tokens(to_numpy(logits), uniform, temperature, top_k, top_p)
        if stop is not None:
            chosen = np.where(finished, stop, chosen)
            finished |= chosen == stop
        yield chosen
        if finished.all():
            return
        ids = np.concatenate([ids, chosen[:, None]], axis=1)

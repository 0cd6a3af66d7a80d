"""Generating text: one forward pass for each new token, with the keys and values of the tokens before it kept."""

from collections.abc import Collection, Iterator
from typing import Any

import numpy as np

from minigpt.device.arrays import Array, to_numpy
from minigpt.errors import InputError, check_whole, is_whole, shown
from minigpt.models import decoding, sampling
from minigpt.models.sampling import NotFinite, check_options
from minigpt.models.token_ids import check_range, pad_left
from minigpt.nn import Past


def generate(model, ids: Any, n_tokens: int, **options) -> np.ndarray | list[np.ndarray]:
    """ids (B,T) -> (B,T+N): the prompts and what follows them. Options: see `stream`.

    Prompts of different lengths, a list of B lists, come back as a list of B arrays (T_i+N,). Raises InputError as
    `stream` does.
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
    stop: int | Collection[int] | None = None,
    cache: bool = True,
    past: list[Past] | None = None,
) -> Iterator[np.ndarray]:
    """ids (B,T), or B lists of different lengths -> yields the next token of each row, (B,) int, n_tokens times

    model: a LanguageModel. temperature, top_k, top_p: see `sampling.next_tokens`. seed: row i draws from a generator
    of its own, seeded with (seed, i), on every device and among any number of rows. stop: a token id, or several, after
    which a row is finished; its later tokens are that id again, and the stream ends with the last row. Past the context
    the window slides: the oldest token is forgotten. cache=False reads everything again for each token: the same
    numbers, slowly. past: of new_past, with what the model has read of the ids already; the rest is read into it, and
    it must have room for all. Raises InputError for prompts that are no token ids of this model, for options outside
    their range, for a past that does not fit, and, once it runs, where the model's weights are not finite.
    """
    check_options(temperature, top_k, top_p)
    if not is_whole(n_tokens) or n_tokens < 1:
        raise InputError(f"n_tokens {shown(n_tokens)}: give 1 token or more, a whole number")
    if not is_whole(seed) or seed < 0:
        raise InputError(f"seed {shown(seed)}: give a whole number of 0 or more")
    size = model.config.vocab_size
    stops = _stops(stop, size)
    if not isinstance(cache, bool):
        raise InputError(f"cache is {shown(cache)}: give True or False")
    ids, padding = pad_left(ids)
    check_range(ids, size, f"ids: token id {{}} is out of range: the table has {size} rows")
    if past is not None:
        _check_past(past, ids.shape[1], n_tokens, model.config.n_positions)

    def choose(logits: Array, uniform: np.ndarray) -> np.ndarray:
        return sampling.next_tokens(logits, uniform, temperature, top_k, top_p)

    return _stream(model, ids, padding, n_tokens, choose, seed, stops, cache, past)


def _stops(stop: int | Collection[int] | None, size: int) -> list[int]:
    """The token ids after which a row is finished."""
    several = stop if isinstance(stop, list | tuple | set | frozenset) else [] if stop is None else [stop]
    for one in several:
        check_whole("stop", one, f"a token id from 0 to {size - 1}, several of them, or None", least=0, below=size)
    return sorted(several)


def _check_past(past: list[Past], n_ids: int, n_tokens: int, context: int) -> None:
    if past[0].length >= n_ids:
        raise InputError(f"past holds {past[0].length} tokens of {n_ids}: at least one must be left to read")
    n_read = n_ids + n_tokens - 1
    if n_read > context:
        raise InputError(f"{n_ids} tokens and {n_tokens} new ones do not fit into the {context} positions of a past")


def _stream(model, ids, padding, n_tokens, choose, seed, stops, cache, past) -> Iterator[np.ndarray]:
    """`stream`, with arguments that are right. choose(logits (B,V), uniform (B,)) -> tokens (B,)."""
    generators = [np.random.default_rng([seed, i]) for i in range(len(ids))]
    finished = np.zeros(len(ids), bool)
    context = model.config.n_positions
    room = min(context, ids.shape[1] + n_tokens - 1)
    step, n_read = None, 0
    if past is not None:
        step, n_read = decoding.step(model, past, n_tokens - 1), past[0].length
    for _ in range(n_tokens):
        slid = max(0, ids.shape[1] - context)
        if step and cache and not slid:
            seen = ids[:, n_read:]
        else:
            # Once the window slides, each of its tokens has a new position, on which all keys and values depend:
            # with absolute positions nothing of the past can be kept.
            seen = ids[:, -context:]
            past = model.new_past(room, np.maximum(padding - slid, 0))
            step = decoding.step(model, past, room - seen.shape[1])
        logits = step(seen)
        n_read = ids.shape[1]
        uniform = np.array([generator.random() for generator in generators])
        try:
            chosen = choose(logits, uniform)
        except NotFinite:
            raise InputError(_not_finite(model)) from None
        if stops:
            chosen = np.where(finished, ids[:, -1], chosen)  # the last one of a finished row is what it stopped with
            finished |= np.isin(chosen, stops)
        yield chosen
        if finished.all():
            return
        ids = np.concatenate([ids, chosen[:, None]], axis=1)


def _not_finite(model) -> str:
    """Why scores are not finite, in one line."""
    problem = "the scores of the next token are not finite"
    for name, parameter in model.named_parameters():
        if not np.isfinite(to_numpy(parameter.data)).all():
            return f"{problem}, because {name} holds NaN or infinity: load the model again"
    return f"{problem}, though the weights are: they are so large that sums overflow"

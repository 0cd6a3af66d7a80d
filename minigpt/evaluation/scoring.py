"""How likely a model finds a text, token by token: what tasks need that the model was never trained for.

Which ending is likelier, who is meant, is this a sentence? Each is answered by a sum or a mean of log-probabilities
(GPT-1 section 5, GPT-2 section 3).
"""

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from tqdm import tqdm

from minigpt import ops
from minigpt.device.arrays import Array, array_module, to_device, to_numpy
from minigpt.errors import InputError
from minigpt.models.language_model import LanguageModel
from minigpt.tokenizer import Tokenizer

BATCH = 2048  # tokens in one forward pass, at most, unless a single row is longer
LOGITS = 1 << 22  # logits (tokens x vocabulary) that exist at once, at most, unless the vocabulary is larger

Pair = tuple[str, str]  # (context, continuation)


class Scored(NamedTuple):
    """N tokens of a text, each with its probability after all that stands before it."""

    log_p: np.ndarray  # (N,) float64, in nats
    greedy: np.ndarray  # (N,) bool: is it the likeliest token of all?
    cut: int  # how many of the oldest tokens before them had no place in the model
    greedy_left: np.ndarray | None = None  # (N,) bool: is it the likeliest of those that are not left out?

    @property
    def total(self) -> float:
        """log P of all N, in nats."""
        return float(self.log_p.sum())

    @property
    def mean(self) -> float:
        """log P per token, in nats: what GPT-1 section 5 compares, so that length alone makes no text unlikely."""
        return float(self.log_p.mean())


# Rows of token ids.


def log_probabilities(
    model: LanguageModel,
    rows: Sequence[Any],
    starts: int | Sequence[int] = 1,
    names: Sequence[str] | None = None,
    left_out: Sequence[int] = (),
) -> list[Scored]:
    """Score each row of token ids from index `start` on.

    rows: N lists or arrays of ids, of any lengths. starts: 1 or more, one for all rows or one for each. Rows of like
    length share a forward pass, padded at the right, where a causal model does not look. A row that is too long for
    the model loses its oldest tokens. names: what an error calls each row. left_out: ids that a filter does not let
    through, see `Scored.greedy_left`. Raises InputError for a row with nothing to score, or with more than fits.
    """
    room = model.config.n_positions + 1  # the last token of a row is only a target
    starts = np.broadcast_to(starts, len(rows))
    if names is None:
        names = [f"text {number}" for number in range(1, len(rows) + 1)]
    for row, start, name in zip(rows, starts, names, strict=True):
        _check_row(len(row), start, room, name)
    lengths = [len(row) for row in rows]
    order = sorted(range(len(rows)), key=lengths.__getitem__)
    longest = min(room, max(lengths, default=1))
    size = max(1, BATCH // longest)
    scored: list[Any] = [None] * len(rows)
    for first in tqdm(range(0, len(rows), size), unit="batch", delay=2, leave=False, disable=None):
        group = order[first : first + size]
        group_rows = [rows[i] for i in group]
        group_starts = [starts[i] for i in group]
        found = _one_pass(model, group_rows, group_starts, left_out)
        for i, one in zip(group, found, strict=True):
            scored[i] = one
    return scored


def _check_row(length: int, start: int, room: int, name: str) -> None:
    """Raises InputError unless 1 to room - 1 tokens are to be scored, after one token or more."""
    n = length - start
    if start < 1 or not 1 <= n < room:
        given = f"{n} tokens to score after the first {start}"
        raise InputError(f"{name} has {given}: give it 1 to {room - 1}, this model's positions, after 1 or more")


def _one_pass(
    model: LanguageModel, rows: Sequence[Any], starts: Sequence[int], left_out: Sequence[int] = ()
) -> list[Scored]:
    """Score rows by one forward pass. The last row is the longest."""
    room = model.config.n_positions + 1
    width = min(room, len(rows[-1]))
    ids = np.zeros((len(rows), width), np.int64)
    wanted = np.zeros((len(rows), width), bool)
    cuts = []
    for line, row in enumerate(rows):
        cut = max(0, len(row) - room)
        end = len(row) - cut
        ids[line, :end] = row[cut:]
        wanted[line, starts[line] - cut : end] = True
        cuts.append(cut)
    h, _ = model.hidden(ids[:, :-1], grad=False)  # (B,T,C); the state at t predicts token t + 1
    states = h.reshape(-1, h.shape[-1])
    places = to_device(np.flatnonzero(wanted[:, 1:]), model.device)
    targets = to_device(ids[wanted], model.device)
    log_p, greedy, greedy_left = _of_targets(model, states[places], targets, left_out)
    scored = []
    end = 0
    for n, cut in zip(wanted.sum(axis=1), cuts, strict=True):
        begin = end
        end = begin + n
        scored.append(Scored(log_p[begin:end], greedy[begin:end], cut, greedy_left[begin:end]))
    return scored


def _of_targets(
    model: LanguageModel, h: Array, targets: Array, left_out: Sequence[int] = ()
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """h (N,C), targets (N,) -> of each target log P (N,) float64; is it the likeliest token (N,) bool; of all that are
    not left out (N,) bool
    """
    xp = array_module(h)
    others = xp.asarray(left_out, dtype=xp.int64)
    size = max(1, LOGITS // model.config.vocab_size)
    log_p = []
    greedy = []
    greedy_left = []
    for first in range(0, len(targets), size):
        part = slice(first, first + size)
        y = targets[part]
        logits, _ = ops.linear_forward(h[part], model.head.value.T)
        z = logits.astype(xp.float64)
        z -= z.max(axis=-1, keepdims=True)
        normalizer = xp.log(xp.exp(z).sum(axis=-1))
        of_target = z[xp.arange(len(y)), y]
        likeliest = z.argmax(axis=-1)
        log_p.append(to_numpy(of_target - normalizer))
        greedy.append(to_numpy(likeliest == y))
        if len(others):
            z[:, others] = -xp.inf
            likeliest = z.argmax(axis=-1)
        greedy_left.append(to_numpy(likeliest == y))
    return np.concatenate(log_p), np.concatenate(greedy), np.concatenate(greedy_left)


# Texts.


def opening(tokenizer: Tokenizer) -> list[int]:
    """The ids that stand before a text, so that its first token is predicted too.

    One id, of the end of text or else of a line end; none where the vocabulary has neither.
    """
    if tokenizer.start_id is None:
        return []
    return [tokenizer.start_id]


def continuations(
    model: LanguageModel,
    tokenizer: Tokenizer,
    pairs: Sequence[Pair],
    names: Sequence[str] | None = None,
    left_out: Sequence[int] = (),
) -> list[Scored]:
    """For each pair (context, continuation), the tokens of the continuation scored after the context.

    A context may be empty. The two are encoded apart, so that it is certain where one ends; the space between them
    belongs to the continuation. names: what an error calls each pair. left_out: see `log_probabilities`. Raises
    InputError for a continuation without tokens, or with more than fits.
    """
    encoded: dict[str, list[int]] = {}  # many pairs share a context
    rows = []
    starts = []
    for pair in pairs:
        for part in pair:
            if part not in encoded:
                encoded[part] = tokenizer.encode(part)
        context, continuation = pair
        before = opening(tokenizer) + encoded[context]
        rows.append(before + encoded[continuation])
        starts.append(max(1, len(before)))
    return log_probabilities(model, rows, starts, names, left_out)


# Choices: which of several continuations is the likeliest?


def score_choices(
    model: LanguageModel,
    tokenizer: Tokenizer,
    questions: Sequence[Sequence[Pair]],
) -> list[list[Scored]]:
    """For each question, which is one pair (context, continuation) for each of its choices: the choices scored.

    A choice that changes the context, a name in place of a pronoun, has a context of its own.
    Raises InputError for a choice without tokens, or with more than fits.
    """
    pairs = []
    names = []
    for number, choices in enumerate(questions, 1):
        pairs.extend(choices)
        names += [f"item {number}, choice {choice}," for choice in range(1, len(choices) + 1)]
    scored = continuations(model, tokenizer, pairs, names)
    found = []
    end = 0
    for choices in questions:
        begin = end
        end = begin + len(choices)
        found.append(scored[begin:end])
    return found


def credit(scores: Sequence[float], answer: int) -> float:
    """1 if the score of the answer is the highest, else 0; where the highest scores tie, a share of 1.

    scores (K,): one for each choice. Scores tie if they differ by no more than rounding. A model that cannot tell the
    choices apart so receives what a random guess receives on average.
    """
    highest = max(scores)
    best = [math.isclose(score, highest, rel_tol=1e-6) for score in scores]
    return best[answer] / sum(best)

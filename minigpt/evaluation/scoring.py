"""How likely a model finds a text, token by token: all that a task needs that nobody trained the model for.

Which ending is likelier, who is meant, does it sound right? Each is a sum of log-probabilities (GPT-1 §5, GPT-2 §3).
"""

import math
import re
from collections.abc import Iterable, Sequence
from itertools import islice
from typing import Any, NamedTuple

import numpy as np
from tqdm import tqdm

from minigpt import ops
from minigpt.device.arrays import array_module, to_device, to_numpy
from minigpt.errors import InputError
from minigpt.models.language_model import LanguageModel
from minigpt.tokenizer import Tokenizer

BATCH = 2048  # tokens in one forward pass, at most, unless a single row is longer
LOGITS = 1 << 22  # tokens x vocabulary that exist at once
SMALL = ("The", "A", "An", "My", "His", "Her", "Our", "Their", "Your")  # inside a sentence; a name stays as it is


class Scored(NamedTuple):
    """N tokens, each judged after all that stands before it."""

    log_p: np.ndarray  # (N,) float64, in nats
    greedy: np.ndarray  # (N,) bool: is it the likeliest token of all?
    cut: int  # how many of the oldest tokens before them had no place in the model

    @property
    def total(self) -> float:
        """log P of all N."""
        return float(self.log_p.sum())

    @property
    def mean(self) -> float:
        """log P per token: what GPT-1 §5 compares, so that a text is not unlikely only because it is long."""
        return float(self.log_p.mean())


def log_probabilities(model: LanguageModel, rows: Sequence[Any], starts: int | Sequence[int] = 1) -> list[Scored]:
    """Score each row of token ids from index `start` on, 1 or more: one for all rows, or one for each.

    Rows of like length share a forward pass, padded on the right, where a causal model does not look. A row that is
    too long loses its oldest tokens. Raises InputError for a row with nothing to score, or too much.
    """
    room = model.config.n_positions + 1  # the last token of a row is only a target
    starts, scored = np.broadcast_to(starts, len(rows)), [None] * len(rows)
    for row, start in zip(rows, starts, strict=True):
        if not 1 <= start < len(row) < start + room:
            given = f"{len(row) - start} tokens to score after the first {start}"
            raise InputError(f"a text has {given}: give it 1 to {room - 1}, this model's positions, after 1 or more")
    order = sorted(range(len(rows)), key=lambda i: len(rows[i]))
    size = max(1, BATCH // min(room, max(map(len, rows), default=1)))
    for first in tqdm(range(0, len(rows), size), unit="batch", delay=2, leave=False, disable=None):
        group = order[first : first + size]
        cuts = [max(0, len(rows[i]) - room) for i in group]
        parts = [rows[i][cut:] for i, cut in zip(group, cuts, strict=True)]
        ids = np.zeros((len(group), len(parts[-1])), np.int64)
        wanted = np.zeros(ids.shape, bool)
        for line, part in enumerate(parts):
            ids[line, : len(part)] = part
            wanted[line, starts[group[line]] - cuts[line] : len(part)] = True
        h, _ = model.hidden(ids[:, :-1], grad=False)
        places = to_device(np.flatnonzero(wanted[:, 1:]), model.device)
        log_p, greedy = _of_targets(model, h.reshape(-1, h.shape[-1])[places], to_device(ids[wanted], model.device))
        edges = wanted.sum(axis=1).cumsum()[:-1]
        for i, *found in zip(group, np.split(log_p, edges), np.split(greedy, edges), cuts, strict=True):
            scored[i] = Scored(*found)
    return scored


def _of_targets(model: LanguageModel, h, targets) -> tuple[np.ndarray, np.ndarray]:
    """h (N,C), targets (N,) -> log P of each target (N,), is it the likeliest (N,)"""
    xp, size, log_p, greedy = array_module(h), max(1, LOGITS // model.config.vocab_size), [], []
    for first in range(0, len(targets), size):
        z, _ = ops.linear_forward(h[first : first + size], model.head.value.T)
        y, z = targets[first : first + size], z.astype(xp.float64)
        z -= z.max(axis=-1, keepdims=True)
        log_p.append(to_numpy(z[xp.arange(len(y)), y] - xp.log(xp.exp(z).sum(axis=-1))))
        greedy.append(to_numpy(z.argmax(axis=-1) == y))
    return np.concatenate(log_p), np.concatenate(greedy)


def opening(tokenizer: Tokenizer) -> list[int]:
    """What stands before a text, so that its first token is judged too: end-of-text, or else a line end, if any."""
    return [] if tokenizer.start_id is None else [tokenizer.start_id]


def continuations(model: LanguageModel, tokenizer: Tokenizer, pairs: Sequence[tuple[str, str]]) -> list[Scored]:
    """Pairs (context, text): the text's tokens scored after the context, which may be empty.

    The two are encoded apart, so that it is certain where one ends. The space between them belongs to the text.
    """
    encoded = {part: tokenizer.encode(part) for part in dict.fromkeys(part for pair in pairs for part in pair)}
    before = [opening(tokenizer) + encoded[context] for context, _ in pairs]
    rows = [ids + encoded[text] for ids, (_, text) in zip(before, pairs, strict=True)]
    return log_probabilities(model, rows, [max(1, len(ids)) for ids in before])


def substitute(text: str, candidate: str, mask: str = "[MASK]") -> tuple[str, str]:
    """(all up to the candidate, which takes the place of the mask; the rest): the halves of partial scoring.

    The candidate gets a capital at the start of a sentence, and its article a small letter inside one.
    """
    before, after = (" ".join(part.split()) for part in text.split(mask, 1))
    if not before or re.search(r"[.!?][\"']?$", before):
        candidate = candidate[:1].upper() + candidate[1:]
    elif candidate.split(" ")[0] in SMALL:
        candidate = candidate[:1].lower() + candidate[1:]
    return f"{before} {candidate}".lstrip(), ("" if after[:1] in ".,;:!?)'" else " ") + after


def credits(scores: Iterable[float], records: Iterable[tuple]) -> list[float]:
    """For each record (..., choices, answer), which takes as many scores as it has choices: is the answer's highest?

    1 or 0, and a share of 1 where choices tie, up to rounding: who cannot tell gets what a guess gets, on average.
    """
    scores, found = iter(scores), []
    for *_, choices, answer in records:
        here = list(islice(scores, len(choices)))
        best = [math.isclose(score, max(here), rel_tol=1e-6) for score in here]
        found.append(best[answer] / sum(best))
    return found

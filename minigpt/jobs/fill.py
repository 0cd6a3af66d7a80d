"""Fill in the words that a text lacks, with a model that learned to do so."""

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from minigpt import models, ops
from minigpt.device.arrays import to_numpy
from minigpt.device.gpu import choose_device
from minigpt.errors import InputError, check_ranges, shown
from minigpt.jobs import texts
from minigpt.jobs.option_fields import OnDevice, argument, option
from minigpt.models import costs
from minigpt.models.language_model import LanguageModel
from minigpt.tokenizer import Tokenizer
from minigpt.tokenizer.base import ROLES


@dataclass(kw_only=True)
class FillOptions(OnDevice):
    """What `minigpt fill` can be told."""

    folder: str = argument("a model directory, or a downloaded model", metavar="MODEL")
    text: str | None = argument(
        "a text with [MASK] where a word is missing (default: each line of --file, or of standard input)",
        default=None, metavar="TEXT",
    )  # fmt: skip
    file: str | None = option(None, "a text on each line", metavar="FILE")
    top: int = option(5, "how many words for each place", metavar="K")

    def check(self) -> None:
        """Raises InputError for a value outside its range."""
        check_ranges(self, 1, "top")


class Guess(NamedTuple):
    """A word at a place, and its probability given all words at other places."""

    token: int
    word: str
    probability: float


def fill(options: FillOptions, write: Callable[[str], object] = print) -> list[list[list[Guess]]]:
    """Write the likeliest words for each covered place of each text; returns them: [text][place][rank].

    A place is covered by the model's own mask token, or by [MASK], <mask> or _mask_, whatever the model calls it. Of
    several places each is filled in for itself: no place knows what stands at another. Raises InputError for a text
    without a covered place or with more tokens than the model sees, and for a model that fills in no words.
    """
    options.check()
    model, text = models.open_both(options.folder)
    model.to(choose_device(options.device))
    found = []
    for sentence in texts.given(options.text, options.file, "a text with [MASK] in it"):
        if found:
            write("")
        found.append(guesses(model, text, sentence, options.top))
        for number, words in enumerate(found[-1], start=1):
            if len(found[-1]) > 1:
                write(f"place {number}")
            write("\n".join(f"{one.probability:.4f}\t{one.word}" for one in words))
    return found


def guesses(model: LanguageModel, text: Tokenizer, sentence: str, top: int = 5) -> list[list[Guess]]:
    """The likeliest words for each covered place of a sentence, best first. Raises InputError as `fill` does."""
    mask = text.role("mask")
    if mask is None:
        model.scores_at(np.zeros(1, np.int64), [0])  # which says why, of a model that fills in nothing
        raise InputError("this model's vocabulary has no token that covers a word: take another, such as bert")
    own = text.tokens[mask]
    ids, segments = covered(text, sentence)
    places = [i for i, token in enumerate(ids) if token == mask]
    if not places:
        raise InputError(f"{shown(sentence)} has no place to fill in: write {own} where a word is missing")
    room = model.config.n_positions
    if len(ids) > room:
        given = f"{shown(sentence)} has {len(ids)} tokens with the special ones"
        raise InputError(f"{given}, and the model sees {room}: give a shorter text")
    costs.fit_threads(model, len(ids))
    inputs = model.inputs_of_segments(np.array([segments]))
    scores = to_numpy(model.scores_at(np.array(ids), places, **inputs)).astype(np.float64)
    p, _ = ops.softmax_forward(scores)
    return [_best(row, text, top) for row in p]


def covered_ids(text: Tokenizer, sentence: str) -> list[int]:
    """The ids of a sentence as an encoder reads it: between its special tokens, and its mask at each covered place."""
    return covered(text, sentence)[0]


def covered(text: Tokenizer, sentence: str) -> tuple[list[int], list[int]]:
    """The same, and the segment of each."""
    mask = text.role("mask")
    if mask is None:
        return text.wrap(text.encode(sentence))
    own = text.tokens[mask]
    named = _marks(text).sub(lambda _: own, sentence)
    return text.wrap(text.encode_named(named, [own]))


def uncovered(text: Tokenizer, sentence: str) -> str:
    """The sentence without what stands for covered places."""
    return _marks(text).sub(" ", sentence)


def _marks(text: Tokenizer) -> re.Pattern[str]:
    """What may stand for a covered place: the model's own mask, or one of the usual names."""
    mask = text.role("mask")
    own = [] if mask is None else [text.tokens[mask]]
    return re.compile("|".join(map(re.escape, (*own, *ROLES["mask"]))))


def _best(p: np.ndarray, text: Tokenizer, top: int) -> list[Guess]:
    """p (V,) -> the likeliest words, best first"""
    best = np.argsort(-p, kind="stable")[:top]
    return [Guess(int(i), _word(text, int(i)), float(p[i])) for i in best]


def _word(text: Tokenizer, i: int) -> str:
    """A token as a person reads it: its text, or its name where it has none, or is a part of a character."""
    word = text.decode([i]).strip()
    if not word.isprintable() or not word or "\N{REPLACEMENT CHARACTER}" in word:
        return text.readable(text.token(i))
    return word

"""Input transformations (GPT-1 section 3.3, figure 1): how a labelled example becomes sequences of tokens.

Every task is told to the model in the same way: texts between three special tokens. A layout says which texts, in which
order; everything else, cutting, padding, drawing, is the same for all four.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from minigpt.data.examples import Example
from minigpt.errors import InputError
from minigpt.tokenizer import Tokenizer

START, DELIMITER, EXTRACT = SPECIAL = ("_start_", "_delimiter_", "_classify_")  # as in OpenAI's code, in its order


class Part(NamedTuple):
    """A piece of a sequence: a special token, whose text is None, or a text. `name` says what it is."""

    name: str
    text: str | None = None


def classification(example: Example) -> list[list[Part]]:
    """start text extract"""
    (text,) = example.texts
    return [[Part(START), Part("text", text), Part(EXTRACT)]]


def entailment(example: Example) -> list[list[Part]]:
    """start premise $ hypothesis extract"""
    premise, hypothesis = example.texts
    return [[Part(START), Part("premise", premise), Part(DELIMITER), Part("hypothesis", hypothesis), Part(EXTRACT)]]


def similarity(example: Example) -> list[list[Part]]:
    """start a $ b extract, and start b $ a extract: neither text comes first. The two final states are added."""
    a, b = (Part(name, text) for name, text in zip("ab", example.texts, strict=True))
    return [[Part(START), *order, Part(EXTRACT)] for order in ((a, Part(DELIMITER), b), (b, Part(DELIMITER), a))]


def choice(example: Example) -> list[list[Part]]:
    """start context question $ candidate extract, for each candidate: nothing stands between context and question."""
    given = Part("context", " ".join(example.texts))
    return [[Part(START), given, Part(DELIMITER), Part("candidate", c), Part(EXTRACT)] for c in example.choices]


LAYOUTS = {layout.__name__: layout for layout in (classification, entailment, similarity, choice)}


class Encoded(NamedTuple):
    """One sequence: its ids; the names of its parts, and where each ends; how many tokens had no place."""

    ids: list[int]
    names: tuple[str, ...]
    ends: tuple[int, ...]
    cut: int


def encode(parts: Sequence[Part], tokenizer: Tokenizer, room: int) -> Encoded:
    """The ids of a sequence of at most `room` tokens; tokenizer: one with the special tokens (`with_special`).

    What is too long loses tokens at the front of its longest text, one after the other. So no special token is lost,
    and no end of a text: the end of a story is what an ending must fit. Raises InputError for a text without tokens.
    """
    pieces = [[tokenizer.ids[name]] if text is None else tokenizer.encode(text) for name, text in parts]
    if 0 in map(len, pieces):
        name, text = parts[list(map(len, pieces)).index(0)]
        what = "has no token in this vocabulary" if text.strip() else "is empty"
        raise InputError(f"the {name} {text!r} {what}: every example needs a text there")
    if room < len(pieces):
        raise InputError(f"a context of {room} tokens has no room for {len(pieces)} texts and special tokens")
    cut = max(0, sum(map(len, pieces)) - room)
    while (excess := sum(map(len, pieces)) - room) > 0:
        *_, second, longest = sorted(map(len, pieces))
        at = next(i for i, piece in enumerate(pieces) if len(piece) == longest)
        pieces[at] = pieces[at][min(excess, max(1, longest - second)) :]
    ends = np.cumsum([len(piece) for piece in pieces]).tolist()
    return Encoded([i for piece in pieces for i in piece], tuple(part.name for part in parts), tuple(ends), cut)


def encode_all(examples: Sequence[Example], kind: str, tokenizer: Tokenizer, room: int) -> list[list[Encoded]]:
    """The sequences of each example, one, two, or one for each candidate. Raises InputError, with its number."""
    encoded = []
    for number, example in enumerate(examples, 1):
        try:
            encoded.append([encode(parts, tokenizer, room) for parts in LAYOUTS[kind](example)])
        except (InputError, ValueError) as error:
            raise InputError(f"example {number}: {error}") from error
        if len(encoded[-1]) != len(encoded[0]):
            given = f"{len(encoded[-1])} candidates, and example 1 has {len(encoded[0])}"
            raise InputError(f"example {number} has {given}: give every example as many")
    return encoded


def batch(encoded: Sequence[Sequence[Encoded]]) -> tuple[np.ndarray, np.ndarray]:
    """N examples of S sequences each -> ids (N,S,T) int64, lengths (N,S) int

    Shorter sequences are filled up at the right with id 0, as in OpenAI's code: a causal model never looks there.
    """
    lengths = np.array([[len(one.ids) for one in example] for example in encoded])
    ids = np.zeros((*lengths.shape, lengths.max()), np.int64)
    for n, example in enumerate(encoded):
        for s, one in enumerate(example):
            ids[n, s, : len(one.ids)] = one.ids
    return ids, lengths


COLOURS = {START: 92, DELIMITER: 93, EXTRACT: 91}  # of the terminal; the texts are white on blue and on violet
BACKGROUNDS = (44, 45)


def draw(encoded: Sequence[Encoded], tokenizer: Tokenizer, colour: bool = True) -> str:
    """The sequences of one example, a line each, every token apart and coloured by its part, for a terminal.

    colour=False writes the parts' names in front of them instead: `text[the|ship|sank]`.
    """
    lines = []
    for one in encoded:
        texts, pieces = [name for name in one.names if name not in SPECIAL], []
        for name, start, end in zip(one.names, (0, *one.ends), one.ends, strict=False):
            tokens = [tokenizer.readable(tokenizer.token(i)) for i in one.ids[start:end]]
            if not colour:
                pieces.append(name if name in SPECIAL else f"{name}[{'|'.join(tokens)}]")
            else:
                code = f"1;{COLOURS[name]}" if name in SPECIAL else f"97;{BACKGROUNDS[texts.index(name) % 2]}"
                pieces.append(" ".join(f"\x1b[{code}m{token}\x1b[0m" for token in tokens))
        lines.append(" ".join(pieces))
    return "\n".join(lines)

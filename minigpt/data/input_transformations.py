"""Input transformations (GPT-1 section 3.3, figure 1): how a labelled example becomes sequences of tokens.

Every task is given to the model in the same way: texts between three special tokens. A transformation tells which texts
stand there, in which order; cutting, padding and drawing are the same for all four.
"""

from array import array
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from minigpt.data.examples import TAGGING, Example
from minigpt.data.units import NOWHERE, tokens_of
from minigpt.errors import InputError
from minigpt.tokenizer import Tokenizer

START = "_start_"
DELIMITER = "_delimiter_"
EXTRACT = "_classify_"
SPECIAL = (START, DELIMITER, EXTRACT)  # named and ordered as in OpenAI's code


def with_special(tokenizer: Tokenizer) -> Tokenizer:
    """The tokenizer that a task is given with: with the three special tokens, unless it has others for their roles."""
    return tokenizer if _wraps(tokenizer) else tokenizer.with_special(SPECIAL)


def special_ids(tokenizer: Tokenizer) -> dict[str, list[int]]:
    """The ids that stand for START, DELIMITER and EXTRACT: one each, in a vocabulary of `with_special`.

    A published encoder learned with tokens of its own: then they are what it puts before a text, between two texts, and
    behind the last one. BERT's are [CLS], [SEP] and [SEP]; of RoBERTa two tokens stand between. A published GPT has
    none.
    """
    if not _wraps(tokenizer):
        return {name: [tokenizer.ids[name]] if name in tokenizer.ids else [] for name in SPECIAL}
    first, second = -1, -2
    ids, _ = tokenizer.wrap([first], [second])
    before, behind = ids.index(first), ids.index(second)
    return {START: ids[:before], DELIMITER: ids[before + 1 : behind], EXTRACT: ids[behind + 1 :]}


def _wraps(tokenizer: Tokenizer) -> bool:
    """Does it put tokens other than START around a text?"""
    start = tokenizer.role("start")
    ours = start is not None and tokenizer.tokens[start] == START
    return not ours and len(tokenizer.wrap([])[0]) > 0


class Part(NamedTuple):
    """A part of a sequence: a text, or a special token, whose text is None. `name` tells which."""

    name: str
    text: str | None = None


Sequences = list[list[Part]]  # the sequences of one example


# The four transformations, from the top of figure 1 to its bottom; and one for models that write their answers.


def classification(example: Example) -> Sequences:
    """start text extract"""
    (text,) = example.texts
    return [[Part(START), Part("text", text), Part(EXTRACT)]]


def entailment(example: Example) -> Sequences:
    """start premise $ hypothesis extract"""
    premise, hypothesis = example.texts
    first = Part("premise", premise)
    second = Part("hypothesis", hypothesis)
    return [[Part(START), first, Part(DELIMITER), second, Part(EXTRACT)]]


def similarity(example: Example) -> Sequences:
    """start a $ b extract, and start b $ a extract: neither text comes first. The two final states are added."""
    text_a, text_b = example.texts
    a = Part("a", text_a)
    b = Part("b", text_b)
    return [
        [Part(START), a, Part(DELIMITER), b, Part(EXTRACT)],
        [Part(START), b, Part(DELIMITER), a, Part(EXTRACT)],
    ]


def choice(example: Example) -> Sequences:
    """start context question $ candidate extract, for each candidate: only a space between context and question."""
    given = Part("context", " ".join(example.texts))
    sequences = []
    for candidate in example.choices:
        sequences.append([Part(START), given, Part(DELIMITER), Part("candidate", candidate), Part(EXTRACT)])
    return sequences


def together(example: Example) -> Sequences:
    """start text $ text ... extract: all texts and candidates in one sequence, for a model that writes the answer.

    So T5 is given every task (Raffel et al. 2020, section 2.4); its names of texts and tasks are tokens here.
    """
    texts = [f"text {n}" for n in range(1, len(example.texts) + 1)]
    candidates = [f"candidate {n}" for n in range(1, len(example.choices) + 1)]
    parts = []
    for name, text in zip(texts + candidates, example.texts + example.choices, strict=True):
        parts += [Part(DELIMITER), Part(name, text)]
    return [[Part(START), *parts[1:], Part(EXTRACT)]]


TRANSFORMATIONS = {
    "classification": classification,
    "entailment": entailment,
    "similarity": similarity,
    "choice": choice,
    "together": together,
}

# From parts to token ids.


class Encoded(NamedTuple):
    """One sequence: its ids; the names of its parts, and where each ends; how many tokens had no place.

    places: of a tagging, (2,U): in which token each unit begins, and in which it ends.
    """

    ids: list[int]
    names: tuple[str, ...]
    ends: tuple[int, ...]
    cut: int
    places: np.ndarray | None = None

    @property
    def n_special(self) -> int:
        """How many of the ids are special tokens."""
        starts = (0, *self.ends[:-1])
        lengths = [end - start for start, end in zip(starts, self.ends, strict=True)]
        return sum(n for n, name in zip(lengths, self.names, strict=True) if name in SPECIAL)


def encode(parts: Sequence[Part], tokenizer: Tokenizer, room: int) -> Encoded:
    """The ids of a sequence of at most `room` tokens. tokenizer: one of `with_special`.

    What is too long loses tokens at the front of its longest text, again and again. So no special token is lost, and
    no end of a text: an ending must fit the end of its story. Raises InputError for a text without tokens, and for a
    room that is smaller than the number of parts.
    """
    special = special_ids(tokenizer)
    pieces = []
    for part in parts:
        pieces.append(special[part.name] if part.text is None else _ids(part, tokenizer))
    texts = [piece for piece, part in zip(pieces, parts, strict=True) if part.text is not None]
    length = sum(len(piece) for piece in pieces)
    least = length - sum(len(text) - 1 for text in texts)
    if room < least:
        raise InputError(f"a context of {room} tokens has no room for {least} texts and special tokens")
    cut = max(0, length - room)
    _shorten(texts, cut)
    ids = []
    ends = []
    for piece in pieces:
        ids.extend(piece)
        ends.append(len(ids))
    names = tuple(part.name for part in parts)
    return Encoded(ids, names, tuple(ends), cut)


def encode_units(units: Sequence[str], tokenizer: Tokenizer, room: int) -> Encoded:
    """The sequence of a sentence whose units have labels: start, sentence, extract, in at most `room` tokens.

    What is too long loses its end; the places of units without a token are NOWHERE. Raises InputError for a sentence
    without tokens.
    """
    special = special_ids(tokenizer)
    before, behind = special[START], special[EXTRACT]
    ids, places = tokens_of(units, tokenizer)
    kept = max(0, room - len(before) - len(behind))
    if not ids[:kept]:
        raise InputError(f"the sentence {''.join(units)[:60]!r} has no token in this vocabulary, or no room")
    places[:, places[1] >= kept] = NOWHERE
    places[places != NOWHERE] += len(before)
    whole = [*before, *ids[:kept], *behind]
    ends = (len(before), len(whole) - len(behind), len(whole))
    return Encoded(whole, (START, "sentence", EXTRACT), ends, max(0, len(ids) - kept), places)


def _ids(part: Part, tokenizer: Tokenizer) -> list[int]:
    """The ids of a text. Raises InputError for one without tokens."""
    assert part.text is not None, "it is no special token"
    ids = tokenizer.encode(part.text)
    if not ids:
        what = "has no token in this vocabulary" if part.text.strip() else "is empty"
        raise InputError(f"the {part.name} {part.text!r} {what}: every example needs a text there")
    return ids


def _shorten(pieces: list[list[int]], excess: int) -> None:
    """Remove so many ids, in place: always from the front of the longest piece, until another is as long."""
    while excess > 0:
        lengths = [len(piece) for piece in pieces]
        second, longest = sorted([1, *lengths])[-2:]
        at = lengths.index(longest)
        n = min(excess, max(1, longest - second))
        del pieces[at][:n]
        excess -= n


class EncodedExamples(Sequence[list[Encoded]]):
    """The sequences of many examples, made anew whenever one is asked for: in memory are numbers alone.

    Lists and tuples would take five times as much.
    """

    def __init__(self) -> None:
        self._numbers = array("i")  # of each sequence: which names, how many cut, ends, ids, and places
        self._begins = array("q")  # of each sequence among the numbers
        self._names: list[tuple[str, ...]] = []
        self.n_sequences = 0  # of an example

    def append(self, example: Sequence[Encoded]) -> None:
        """Keep the sequences of one more example."""
        self.n_sequences = len(example)
        for one in example:
            if one.names not in self._names:
                self._names.append(one.names)
            self._begins.append(len(self._numbers))
            self._numbers.extend([self._names.index(one.names), one.cut, *one.ends, *one.ids])
            if one.places is not None:
                self._numbers.extend(one.places.ravel().tolist())

    def __len__(self) -> int:
        return len(self._begins) // max(1, self.n_sequences)

    def __getitem__(self, i):
        first = range(len(self))[i] * self.n_sequences
        return [self._sequence(k) for k in range(first, first + self.n_sequences)]

    def _sequence(self, k: int) -> Encoded:
        end = self._begins[k + 1] if k + 1 < len(self._begins) else len(self._numbers)
        which, cut, *numbers = self._numbers[self._begins[k] : end]
        names = self._names[which]
        ends = tuple(numbers[: len(names)])
        behind = len(names) + ends[-1]
        places = np.array(numbers[behind:], np.int32).reshape(2, -1) if len(numbers) > behind else None
        return Encoded(numbers[len(names) : behind], names, ends, cut, places)


def encode_all(
    examples: Sequence[Example],
    transformation: str,
    tokenizer: Tokenizer,
    room: int,
) -> EncodedExamples:
    """The sequences of each example: one, two, or one for each candidate.

    transformation: one of TRANSFORMATIONS, or TAGGING; room: the most tokens of a sequence. Raises InputError, with the
    number of the example, for one that cannot be encoded, and for one with more or fewer candidates than the first.
    """
    encoded = EncodedExamples()
    for number, example in enumerate(examples, 1):
        try:
            if transformation == TAGGING:
                sequences = [encode_units(example.texts, tokenizer, room)]
            else:
                parts_of_each = TRANSFORMATIONS[transformation](example)
                sequences = [encode(parts, tokenizer, room) for parts in parts_of_each]
        except (InputError, ValueError) as error:
            raise InputError(f"example {number}: {error}") from error
        if len(sequences) != (encoded.n_sequences or len(sequences)):
            given = f"{len(sequences)} candidates, and example 1 has {encoded.n_sequences}"
            raise InputError(f"example {number} has {given}: give every example as many")
        encoded.append(sequences)
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


# For people.

COLOURS = {START: "1;92", DELIMITER: "1;93", EXTRACT: "1;91"}  # codes of the terminal
BACKGROUNDS = ("97;44", "97;45")  # white on blue for the first text, white on violet for the second


def draw(encoded: Sequence[Encoded], tokenizer: Tokenizer, colour: bool = True) -> str:
    """The sequences of one example, a line each, every token apart and coloured by its part, for a terminal.

    colour=False writes the parts' names in front of them instead: `text[the|ship|sank]`.
    """
    lines = []
    for one in encoded:
        texts = [name for name in one.names if name not in SPECIAL]
        pieces = []
        start = 0
        for name, end in zip(one.names, one.ends, strict=True):
            tokens = [tokenizer.readable(tokenizer.token(i)) for i in one.ids[start:end]]
            start = end
            if colour:
                code = COLOURS[name] if name in SPECIAL else BACKGROUNDS[texts.index(name) % 2]
                pieces.append(_coloured(tokens, code))
            else:
                pieces.append(name if name in SPECIAL else f"{name}[{'|'.join(tokens)}]")
        lines.append(" ".join(pieces))
    return "\n".join(lines)


def _coloured(tokens: Sequence[str], code: str) -> str:
    """Each token in the colour of a code of the terminal."""
    return " ".join(f"\x1b[{code}m{token}\x1b[0m" for token in tokens)

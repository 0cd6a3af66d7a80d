"""What every tokenizer offers, whatever it does between text and ids."""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import TypeVar

import numpy as np

from minigpt.errors import InputError, is_whole, shown

Value = TypeVar("Value")

MAX_REMEMBERED = 1_000_000  # words, or pieces of text, whose ids are remembered
LONGEST_REMEMBERED = 200  # characters: what is longer seldom comes twice, and would fill the memory

ROLES = {  # what a special token is for -> its names: first ours, then those of published vocabularies
    "mask": ("_mask_", "[MASK]", "<mask>"),
    "start": ("_start_", "[CLS]", "<s>", "<cls>"),
    "delimiter": ("_delimiter_", "[SEP]", "</s>", "<sep>"),
    "pad": ("_pad_", "[PAD]", "<pad>"),
    "unknown": ("[UNK]", "<unk>"),
    "end": ("_end_", "</s>", "<eos>"),
}

STREAM_LONG = 64  # a stream that has decoded more ids than this forgets all of them ...
STREAM_KEPT = 8  # ... but the last ones, which may still change with the next id


def check_text(text: object) -> None:
    """Raise InputError for what is no text."""
    if not isinstance(text, str):
        advice = ": decode the bytes first, as in text.decode('utf-8')" if isinstance(text, bytes) else ""
        raise InputError(f"a text must be a str, not {shown(text)}{advice}")


def pieces_of(texts: str | Iterable[str]) -> Iterator[str]:
    """A text, or each of several. Raises InputError for what is neither."""
    if isinstance(texts, str):
        yield texts
        return
    if not isinstance(texts, Iterable) or isinstance(texts, bytes):
        raise InputError(f"a vocabulary is learned from a str, or from several, not from {shown(texts)}")
    for piece in texts:
        check_text(piece)
        yield piece


def check_size(vocab_size: object) -> None:
    """Raise InputError for the size of a vocabulary that is no whole number."""
    if not is_whole(vocab_size):
        raise InputError(f"the size of a vocabulary must be a whole number, not {shown(vocab_size)}")


class Tokenizer:
    """Text to token ids and back: ids are 0 .. vocab_size - 1, and `tokens[i]` is the token with id i.

    Subclasses have `encode(text) -> list[int]`, `decode(ids) -> str`, `save(folder)`, and the class methods
    `train(text, ...)` and `load(folder)`. Raises InputError where a token is no str, or is in the vocabulary twice.
    """

    unknown_id: int | None = None  # the id that stands for text that the vocabulary cannot spell, where there is one
    special: tuple[str, ...] = ()  # tokens that stand for no text
    merges: Sequence[tuple[str, str]] = ()  # of byte-pair encoding: which two tokens become one, first learnt first
    holds_the_space_before = False  # does the token of a word hold the space that stands before the word?

    def __init__(self, tokens: Iterable[str]):
        self.tokens = list(tokens)
        for token in self.tokens:
            if not isinstance(token, str):
                raise InputError(f"a token must be a str, not {shown(token)}")
        self.ids = {token: i for i, token in enumerate(self.tokens)}
        if len(self.ids) == len(self.tokens):
            return
        for i, token in enumerate(self.tokens):
            if self.ids[token] != i:
                raise InputError(f"the vocabulary has {token!r} twice: every token needs one id of its own")

    def encode(self, text: str) -> list[int]:
        """The ids of a text. Raises InputError for what is no str, and for a text that the vocabulary cannot spell."""
        raise NotImplementedError

    def decode(self, ids: Iterable[int]) -> str:
        """The text of ids (a flat list or array). Raises InputError for an id that is not in the vocabulary."""
        raise NotImplementedError

    def save(self, folder: str | Path) -> None:
        """Write the files from which `minigpt.tokenizer.load(folder)` makes the same tokenizer again.

        Raises InputError for what is no path, and where it cannot be written.
        """
        raise NotImplementedError

    @property
    def vocab_size(self) -> int:
        """How many tokens there are."""
        return len(self.tokens)

    @property
    def newline_id(self) -> int | None:
        """The id of a line end, where a text that begins with nothing can begin; None if there is none."""
        return self.ids.get("\n")

    @property
    def end_of_text_id(self) -> int | None:
        """The id of the special token that ends a document; None if there is none."""
        return None

    @property
    def start_id(self) -> int | None:
        """The id after which a text begins: that of the end of another, or else of a line; None if there is neither."""
        if self.end_of_text_id is not None:
            return self.end_of_text_id
        return self.newline_id

    def role(self, name: str) -> int | None:
        """The id of the special token that is for this, a name of ROLES, such as "mask"; None if there is none."""
        for token in ROLES[name]:
            if token in self.ids and self._stands_for_no_text(token):
                return self.ids[token]
        return {"unknown": self.unknown_id, "end": self.end_of_text_id}.get(name)

    def encode_named(self, text: str, names: Sequence[str]) -> list[int]:
        """The ids of a text that names special tokens, as "the cat sat on the _mask_" does: each becomes its own id.

        Raises InputError as `encode` does.
        """
        if not names:
            return self.encode(text)
        ids = []
        for piece in re.split("(" + "|".join(map(re.escape, names)) + ")", text):
            if piece in names:
                ids.append(self.ids[piece])
            elif self.holds_the_space_before:
                ids += self.encode(piece.removesuffix(" "))  # that space belongs to what the special token stands for
            else:
                ids += self.encode(piece)
        return ids

    def wrap(self, ids: Sequence[int], pair: Sequence[int] | None = None) -> tuple[list[int], list[int]]:
        """The ids of a text, or of two, between the special tokens that an encoder learned with, and their segments.

        `start text delimiter`, or `start text delimiter pair delimiter`, whose segment is 1 behind the first delimiter.
        A vocabulary that lacks one of these tokens adds nothing.
        """
        start, delimiter = self.role("start"), self.role("delimiter")
        before, behind = [], []
        if start is not None and delimiter is not None:
            before, behind = [start], [delimiter]
        first = [*before, *ids, *behind]
        second = [] if pair is None else [*pair, *behind]
        return first + second, [0] * len(first) + [1] * len(second)

    @property
    def before_text(self) -> list[int]:
        """The special tokens that stand before every text which a model goes on with, such as LLaMA's `<s>`: none."""
        return []

    def with_special(self, names: Sequence[str]) -> Tokenizer:
        """The same tokenizer with these tokens at the end of its vocabulary; no text is encoded as one of them.

        Those that the vocabulary has already, wherever they stand, are used again. Raises InputError where it has no
        room for them, because it uses one of the names for something else.
        """
        if not isinstance(names, list | tuple) or not all(isinstance(name, str) for name in names):
            raise InputError(f"special tokens must be a list of names, not {shown(names)}")
        missing = [name for name in names if name not in self.ids]
        for name in names:
            if name in self.ids and not self._stands_for_no_text(name):
                raise InputError(f"the vocabulary has no room for the special token {name}: it means another there")
        if not missing:
            return self
        return self._extended(self.tokens + missing, missing)

    def _stands_for_no_text(self, token: str) -> bool:
        """Is this token of the vocabulary special? It is by name, or because no merge makes a token of its length."""
        if token in self.special:
            return True
        made = {left + right for left, right in self.merges}
        return len(token) > 1 and token not in made

    def _extended(self, tokens: list[str], names: Sequence[str]) -> Tokenizer:
        """A tokenizer with these tokens, of which the last ones, `names`, are special."""
        raise NotImplementedError

    def streaming(self) -> Stream:
        """A decoder for ids that come one by one: `feed(id)` gives the text that is now certain, `end()` the rest."""
        return Stream(self.decode)

    def token(self, i: int) -> str:
        """The token with id i, as the vocabulary writes it. Raises InputError where there is none."""
        checked = self._check([i])
        return self.tokens[checked[0]]

    def count_unknown(self, ids: Iterable[int]) -> int:
        """How many of the ids stand for something unknown. 0 for a tokenizer that knows or refuses everything."""
        if self.unknown_id is None:
            return 0
        return int(np.count_nonzero(np.asarray(ids) == self.unknown_id))

    def unknown_in(self, text: str) -> list[str]:
        """The characters of a text that the vocabulary cannot spell, each once, in the order of the text.

        They would be encoded as `unknown_id`, or refused where there is no such id. Empty where all are known. Raises
        InputError for what is no str.
        """
        check_text(text)
        return []

    def parts(self) -> dict[int, tuple[str, str]]:
        """For tokens that a merge made: {id: the two tokens that it was made of}."""
        return {self.ids[left + right]: (left, right) for left, right in self.merges}

    def listing(self) -> Iterator[str]:
        """The vocabulary for people, a line for each id in order: `[th][e</w>] -> [the</w>] 481`."""
        parts = self.parts()
        for i, token in enumerate(self.tokens):
            line = f"[{self.readable(token)}] {i}"
            if i in parts:
                left, right = parts[i]
                line = f"[{self.readable(left)}][{self.readable(right)}] -> {line}"
            yield line

    def readable(self, token: str) -> str:
        """A token of the vocabulary for people: control characters are written out, so that a line stays a line."""
        shown = []
        for character in token:
            if character.isprintable() or character == " ":
                shown.append(character)
            else:
                shown.append(repr(character)[1:-1])  # without the quotation marks
        return "".join(shown)

    def _check(self, ids: Iterable[int]) -> list[int]:
        """The ids as plain integers. Raises InputError for what is no integer, or not in the vocabulary."""
        given = ids
        try:
            if isinstance(ids, np.ndarray):
                ids = ids.tolist()
            elif isinstance(ids, bytes):
                raise TypeError
            else:
                ids = [operator.index(i) for i in ids]
            ends = [min(ids), max(ids)] if ids else []
            wrong = [i for i in ends if not 0 <= operator.index(i) < self.vocab_size]
        except TypeError:
            expected = "token ids must be whole numbers, in one flat list or array"
            raise InputError(f"{expected}, not {shown(given)}") from None
        if wrong:
            raise InputError(f"token id {wrong[0]} is not in this vocabulary: its ids are 0 to {self.vocab_size - 1}")
        return ids


class Stream:
    """Decodes ids that come one by one. Text that was given out never changes: all of it begins the whole text.

    decode: the text of ids; half: what stands at the end of the text for half a character, which is held back.
    """

    def __init__(self, decode: Callable[[list[int]], str], half: str = ""):
        self._decode = decode
        self._half = half
        self._ids: list[int] = []
        self._shown = ""  # the text of these ids that was given out

    def feed(self, i: int) -> str:
        """Take one id; return the text that is now certain."""
        self._ids.append(i)
        known = self._decode(self._ids)
        new = self._given_out(known.rstrip(self._half))
        if len(self._ids) > STREAM_LONG and self._shown == known:
            self._ids = self._ids[-STREAM_KEPT:]
            self._shown = self._decode(self._ids)
        return new

    def end(self) -> str:
        """The text that is left, when no more ids come."""
        return self._given_out(self._decode(self._ids))

    def _given_out(self, certain: str) -> str:
        """What is new in a text that begins with what was given out."""
        if not certain.startswith(self._shown):  # a last token may still change the end of the text before it
            return ""
        new = certain[len(self._shown) :]
        self._shown = certain
        return new


class Remembered(dict[str, Value]):
    """The results of a function, each computed when it is first looked up: `remembered[key]` is `compute(key)`.

    At `MAX_REMEMBERED` results it forgets all of them, and it keeps none for a key of more than `LONGEST_REMEMBERED`
    characters, so as not to fill the memory. compute_many: the function for a list of keys, where that can be quicker.
    """

    def __init__(self, compute: Callable[[str], Value], compute_many: Callable[[list[str]], list[Value]] | None = None):
        super().__init__()
        self._compute = compute
        self._compute_many = compute_many or (lambda keys: [*map(compute, keys)])

    def __missing__(self, key: str) -> Value:
        value = self._compute(key)
        self._remember(key, value)
        return value

    def of(self, keys: list[str]) -> list[Value]:
        """The results of these keys, the new ones computed together."""
        new = [key for key in keys if key not in self]
        computed = dict(zip(new, self._compute_many(new), strict=True))
        results = [computed[key] if key in computed else self[key] for key in keys]
        for key, value in computed.items():
            self._remember(key, value)
        return results

    def _remember(self, key: str, value: Value) -> None:
        if len(self) >= MAX_REMEMBERED:
            self.clear()
        if len(key) <= LONGEST_REMEMBERED:
            self[key] = value

"""What every tokenizer offers, whatever it does between text and ids."""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path

import numpy as np

from minigpt.errors import InputError

MEMORY = 1_000_000  # words, or pieces of text, whose ids are remembered


class Tokenizer:
    """Text to token ids and back: ids are 0 .. vocab_size - 1, and `tokens[i]` is the token with id i.

    Subclasses have `encode(text) -> list[int]`, `decode(ids) -> str`, `save(folder)`, and the class methods
    `train(text, ...)` and `load(folder)`.
    """

    unknown_id: int | None = None  # the id that stands for text that the vocabulary cannot spell, where there is one
    special: tuple[str, ...] = ()  # tokens that stand for no text

    def __init__(self, tokens: Iterable[str]):
        self.tokens = list(tokens)
        self.ids = {token: i for i, token in enumerate(self.tokens)}
        if len(self.ids) < len(self.tokens):
            twice = next(token for i, token in enumerate(self.tokens) if self.ids[token] != i)
            raise InputError(f"the vocabulary has {twice!r} twice: every token needs one id of its own")

    def encode(self, text: str) -> list[int]:
        raise NotImplementedError

    def decode(self, ids: Iterable[int]) -> str:
        raise NotImplementedError

    def save(self, folder: str | Path) -> None:
        raise NotImplementedError

    @property
    def vocab_size(self) -> int:
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
        return self.newline_id if self.end_of_text_id is None else self.end_of_text_id

    def with_special(self, names: Sequence[str]) -> Tokenizer:
        """The same, with these tokens at the end, which no text gives. Those that stand there already are not added.

        Raises InputError where the vocabulary has no room for them: it means something else by one, or is characters.
        """
        if tuple(self.tokens[-len(names) :]) == tuple(names):
            return self
        if taken := [name for name in names if name in self.ids]:
            raise InputError(f"the vocabulary has no room for the special token {taken[0]}: it means another there")
        return self._extended(self.tokens + list(names), names)

    def _extended(self, tokens: list[str], names: Sequence[str]) -> Tokenizer:
        full = f"the vocabulary has no room for the special tokens {', '.join(names)}: it holds characters alone"
        raise InputError(f"{full}: take a model that was trained with --tokenizer bpe:VOCAB")

    def streaming(self) -> Stream:
        """For ids that come one by one: `feed(id)` gives the text that is now certain, `end()` what is left."""
        return Stream(self.decode)

    def token(self, i: int) -> str:
        """The token with id i, as the vocabulary writes it. Raises InputError where there is none."""
        return self.tokens[self._check([i])[0]]

    def count_unknown(self, ids: Iterable[int]) -> int:
        """How many of the ids stand for something unknown. 0 for a tokenizer that knows or refuses everything."""
        return 0 if self.unknown_id is None else int(np.count_nonzero(np.asarray(ids) == self.unknown_id))

    def parts(self) -> dict[int, tuple[str, str]]:
        """For tokens that a merge made: their id, and the two they were made of."""
        return {}

    def listing(self) -> Iterator[str]:
        """The vocabulary for people, a line for each id in order: `[th][e</w>] -> [the</w>] 481`."""
        parts = self.parts()
        for i, token in enumerate(self.tokens):
            made_of = "".join(f"[{self.readable(part)}]" for part in parts.get(i, ()))
            yield f"{made_of + ' -> ' if made_of else ''}[{self.readable(token)}] {i}"

    def readable(self, token: str) -> str:
        """A token of the vocabulary for people: control characters are written out, so that a line stays a line."""
        return "".join(c if c.isprintable() or c == " " else repr(c)[1:-1] for c in token)

    def _check(self, ids: Iterable[int]) -> list[int]:
        """The ids as plain integers, all of them in the vocabulary."""
        try:
            ids = ids.tolist() if isinstance(ids, np.ndarray) else [operator.index(i) for i in ids]
            wrong = [i for i in (min(ids), max(ids)) if not 0 <= operator.index(i) < self.vocab_size] if ids else []
        except TypeError:
            raise InputError("token ids must be whole numbers, in one flat list or array") from None
        if wrong:
            raise InputError(f"token id {wrong[0]} is not in this vocabulary: its ids are 0 to {self.vocab_size - 1}")
        return ids


class Stream:
    """Decodes ids that come one by one. What was given out never changes: together it is how the text begins."""

    def __init__(self, decode: Callable[[list[int]], str]):
        self._decode, self._ids, self._shown = decode, [], ""

    def feed(self, i: int) -> str:
        """Take one id; return the text that is now certain."""
        self._ids.append(i)
        return self.end()

    def end(self) -> str:
        """What is left, when no more ids come."""
        known = self._decode(self._ids)
        if not known.startswith(self._shown):  # a last token may still change the end of the text before it
            return ""
        new, self._shown = known[len(self._shown) :], known
        if len(self._ids) > 64:  # what lies so far back changes nothing any more
            self._ids = self._ids[-8:]
            self._shown = self._decode(self._ids)
        return new


class Memory(dict):
    """A dictionary that computes what it lacks, and starts anew at `MEMORY` entries so as not to fill the memory."""

    def __init__(self, compute: Callable[[str], list[int]]):
        super().__init__()
        self._compute = compute

    def __missing__(self, key: str) -> list[int]:
        if len(self) >= MEMORY:
            self.clear()
        value = self[key] = self._compute(key)
        return value

"""What every tokenizer offers, whatever it does between text and ids."""

from __future__ import annotations

import operator
from collections.abc import Iterable, Iterator
from pathlib import Path

import numpy as np

from minigpt.errors import InputError


class Tokenizer:
    """Text to token ids and back: ids are 0 .. vocab_size - 1, and `tokens[i]` is the token with id i.

    Subclasses have `encode(text) -> list[int]`, `decode(ids) -> str`, `save(folder)`, and the class methods
    `train(text, ...)` and `load(folder)`.
    """

    unknown_id: int | None = None  # the id that stands for text that the vocabulary cannot spell, where there is one

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
            made_of = "".join(f"[{_visible(part)}]" for part in parts.get(i, ()))
            yield f"{made_of + ' -> ' if made_of else ''}[{_visible(token)}] {i}"

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


def _visible(token: str) -> str:
    """The token with control characters written out, so that a line stays a line."""
    return "".join(c if c.isprintable() or c == " " else repr(c)[1:-1] for c in token)

"""Byte-pair encoding as one step of a published tokenizer: which neighbours in a word become one piece (`BPE`).

GPT-1's and GPT-2's own tokenizers are whole classes; here is the model alone, as `tokenizer.json` describes it. What
its words look like, the steps before it decide:

- *byte-level* (RoBERTa, GPT-NeoX and Pythia, SmolLM2, Llama 3, Qwen2): a printable character for each byte of a word;
- SentencePiece's (LLaMA 1 and 2, Mistral 7B v0.1): whole texts, where `▁` stands for a space (`sentencepiece_bpe.py`);
- *word-end* (GPT-1, XLM): words whose last symbol ends in `</w>`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from itertools import chain
from typing import Any

from minigpt.errors import InputError, shown
from minigpt.tokenizer import bpe, files
from minigpt.tokenizer.base import Remembered, check_text
from minigpt.tokenizer.bpe import Pair
from minigpt.tokenizer.gpt2 import CHARACTER_OF, learn_merges, n_merges_in
from minigpt.tokenizer.spiece import SPACE, bytes_of, fused

_BEFORE_SPACE = re.compile(f"{SPACE}*[^{SPACE}]+|{SPACE}+")  # words, where no piece goes on from a letter to a `▁`
_AFTER_SPACE = re.compile(f"[^{SPACE}]*{SPACE}+|[^{SPACE}]+")  # the same, where none goes on from a `▁` to a letter
_LETTER_SPACE = re.compile(f"[^{SPACE}]{SPACE}")
_SPACE_LETTER = re.compile(f"{SPACE}[^{SPACE}]")


class BPEModel:
    """Pieces, and which pairs of neighbours make them: `encode(word)` gives the ids of a word's pieces.

    tokens: all pieces, their places are the ids; ranks {pair of neighbours: its rank}: the least one is merged first,
    and between equal ones the pair further left; unknown_id: of what has no piece, None: it is left out, as the library
    `tokenizers` does; byte_fallback: whether it is written as pieces of its bytes, `<0x00>` to `<0xFF>`, instead; fuse:
    whether neighbours that are unknown become one; whole_words: whether a word that is a piece is taken as it is,
    whatever the merges say (`ignore_merges`); suffix: what is written behind the last character of a word.
    """

    def __init__(
        self,
        tokens: Sequence[str],
        ranks: Mapping[Pair, float],
        *,
        unknown_id: int | None = None,
        byte_fallback: bool = False,
        fuse: bool = False,
        whole_words: bool = False,
        suffix: str = "",
    ):
        self.tokens = list(tokens)
        self.ids = {token: i for i, token in enumerate(self.tokens)}
        self.ranks = dict(ranks)
        self.unknown_id = unknown_id
        self.byte_fallback = byte_fallback
        self.fuse = fuse
        self.whole_words = whole_words
        self.suffix = suffix
        self._word = None if suffix else pattern_of_words(self.ranks)
        self._remembered = Remembered(self._encode_word)

    @classmethod
    def of_json(
        cls,
        vocab: dict,
        merges: list,
        unk_token: str | None = None,
        dropout: float | int | None = None,
        continuing_subword_prefix: str | None = None,
        end_of_word_suffix: str | None = None,
        fuse_unk: bool | None = False,
        byte_fallback: bool | None = False,
        ignore_merges: bool | None = False,
    ) -> BPEModel:
        """The model with these settings in a `tokenizer.json`. Raises InputError for damaged ones, or not built."""
        for setting, value in (("dropout", dropout), ("continuing_subword_prefix", continuing_subword_prefix)):
            if value:
                raise InputError(f"its {setting} is {shown(value)}, which is not built: expected null")
        tokens = files.tokens_from_ids(vocab, "its vocab")
        pairs = files.pairs_of(merges, "its merges", "merge", 1)
        files.check_fit(tokens, pairs, "its vocab", "its merges")
        if unk_token is not None and unk_token not in vocab:
            raise InputError(f"its unk_token is {unk_token!r}, which the vocabulary lacks: add it there")
        return cls(
            tokens,
            {pair: rank for rank, pair in enumerate(pairs)},
            unknown_id=vocab.get(unk_token),
            byte_fallback=bool(byte_fallback),
            fuse=bool(fuse_unk),
            whole_words=bool(ignore_merges),
            suffix=end_of_word_suffix or "",
        )

    def to_json(self) -> dict[str, Any]:
        """The model as a `tokenizer.json` describes it."""
        return {
            "type": "BPE",
            "dropout": None,
            "unk_token": None if self.unknown_id is None else self.tokens[self.unknown_id],
            "continuing_subword_prefix": None,
            "end_of_word_suffix": self.suffix or None,
            "fuse_unk": self.fuse,
            "byte_fallback": self.byte_fallback,
            "ignore_merges": self.whole_words,
            "vocab": self.ids,
            "merges": [list(pair) for pair in self.merges],
        }

    @classmethod
    def train(
        cls,
        word_counts: Mapping[str, int],
        vocab_size: int,
        *,
        special: Sequence[str] = (),
        min_frequency: int = 2,
        progress: bool = True,
    ) -> BPEModel:
        """A byte-level vocabulary of `vocab_size` pieces, or of fewer where no pair is seen `min_frequency` times.

        word_counts {word: how often}, by whatever pattern they were split: every word is spelled as bytes. special:
        tokens that stand for no text, which come first. Raises InputError for a size that is too small.
        """
        n_merges = n_merges_in(vocab_size, special)
        merges = learn_merges(word_counts, n_merges, min_frequency=min_frequency, ties="tokenizers", progress=progress)
        tokens = [*special, *CHARACTER_OF.values(), *(left + right for left, right in merges)]
        return cls(list(dict.fromkeys(tokens)), {pair: rank for rank, pair in enumerate(merges)})

    @property
    def merges(self) -> list[Pair]:
        """The pairs whose halves are both pieces, in their order: what `tokenizer.json` lists."""
        known = [pair for pair in self.ranks if pair[0] in self.ids and pair[1] in self.ids]
        return sorted(known, key=lambda pair: (self.ranks[pair], self.ids[pair[0]], self.ids[pair[1]]))

    def parts(self) -> dict[int, Pair]:
        """For pieces that a merge makes: {id: the two pieces that it is made of}."""
        return {self.ids[left + right]: (left, right) for left, right in reversed(self.merges)}

    def encode(self, word: str) -> list[int]:
        """The ids of a word's pieces, or of those of a text with `▁` for spaces. Raises InputError for what is no str.
        """
        check_text(word)
        if self.whole_words and word in self.ids:
            return [self.ids[word]]
        if self._word is None:
            ids = self._encode_word(word)
        else:
            words = self._word.findall(word)
            ids = list(chain.from_iterable(map(self._remembered.__getitem__, words)))
        return fused(ids, self.unknown_id) if self.fuse else ids

    def _encode_word(self, word: str) -> list[int]:
        symbols = bpe.split_word(word, self.suffix) if word and self.suffix else list(word)
        if self.unknown_id is None and not all(symbol in self.ids for symbol in symbols):
            symbols = [symbol for symbol in symbols if self._ids_of(symbol)]
        ids = []
        for symbol in bpe.merge(symbols, self.ranks, best_first=True):
            ids += self._ids_of(symbol)
        return ids

    def _ids_of(self, symbol: str) -> list[int]:
        """The id of a symbol, or what stands for a character that is no piece."""
        return [self.ids[symbol]] if symbol in self.ids else self._unknown(symbol)

    def _unknown(self, symbol: str) -> list[int]:
        """The ids of the bytes of a character, or that of the unknown."""
        if self.byte_fallback:
            names = bytes_of(symbol)
            if all(name in self.ids for name in names):
                return [self.ids[name] for name in names]
        return [] if self.unknown_id is None else [self.unknown_id]


def pattern_of_words(ranks: Mapping[Pair, float]) -> re.Pattern | None:
    """What cuts a text at `▁` into words that no piece reaches beyond; None where it stays whole."""
    merged = ["".join(pair) for pair in ranks]
    if not any(SPACE in piece for piece in merged):
        return None
    if not any(map(_LETTER_SPACE.search, merged)):
        return _BEFORE_SPACE
    if not any(map(_SPACE_LETTER.search, merged)):
        return _AFTER_SPACE
    return None


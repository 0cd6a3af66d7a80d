"""WordPiece: a word is cut into the longest pieces that the vocabulary has, from left to right (BERT, ELECTRA).

A piece inside a word is written with `##` in front: `playing` is `play`, `##ing`. A word of which one part is not in
the vocabulary is unknown as a whole.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from minigpt.errors import InputError
from minigpt.tokenizer import bpe, files
from minigpt.tokenizer.word_counts import characters_of, check_room, counted

UNKNOWN = "[UNK]"
INSIDE = "##"
SPECIAL = ("[PAD]", UNKNOWN, "[CLS]", "[SEP]", "[MASK]")
LONGEST_WORD = 100  # characters: a longer word is unknown


class WordPiece:
    """Pieces of words and their ids: `encode(word)` cuts one word. See `pipeline.py` for the text around it.

    tokens: in the order of their ids; unknown: the token for a word that cannot be cut; inside: what stands in front of
    a piece that does not begin a word; longest: a word of more characters is unknown. Raises InputError where the
    vocabulary lacks the unknown token.
    """

    def __init__(
        self, tokens: Iterable[str], unknown: str = UNKNOWN, inside: str = INSIDE, longest: int = LONGEST_WORD
    ):
        self.tokens = list(tokens)
        self.ids = {token: i for i, token in enumerate(self.tokens)}
        if unknown not in self.ids:
            raise InputError(f"the vocabulary lacks {unknown!r}, the token for words that it cannot spell: add it")
        self.unknown = unknown
        self.unknown_id = self.ids[unknown]
        self.inside = inside
        self.longest = longest
        self._inside = {}  # {piece inside a word, without its mark: id}
        for token, i in self.ids.items():
            if token.startswith(inside) and token != inside:
                self._inside[token[len(inside) :]] = i
        self._longest_piece = max(map(len, self.tokens))

    @classmethod
    def train(
        cls,
        word_counts: Mapping[str, int] | str,
        vocab_size: int,
        *,
        special: Sequence[str] = SPECIAL,
        min_frequency: int = 2,
        coverage: float = 0.9995,
        progress: bool = True,
    ) -> WordPiece:
        """A vocabulary of `vocab_size` pieces, or of fewer where pairs run out that are seen `min_frequency` times.

        word_counts {word: how often}, or a text; special: the first tokens, `[UNK]` among them; coverage: the share of
        all characters that get a piece. Google never released its trainer. The public ones, and this one, merge the
        most frequent pair of neighbours as byte-pair encoding does, with `##` on every character inside a word; the
        literature tells of count(ab) / (count(a) count(b)) as the score of a pair. Raises InputError for a size that is
        too small, and for a text with nothing in it.
        """
        word_counts = counted(word_counts, vocab_size, coverage, mark="")
        characters = set(characters_of(word_counts, coverage))
        counts = {word: n for word, n in word_counts.items() if characters.issuperset(word)}
        inside = {character for word in counts for character in word[1:]}
        symbols = [*sorted(characters), *(INSIDE + character for character in sorted(inside))]
        check_room(vocab_size, len(special), symbols, "signs")
        options = {"min_frequency": min_frequency, "ties": "tokenizers", "suffix": "", "inside": INSIDE}
        n_merges = vocab_size - len(special) - len(symbols)
        merges = bpe.train(counts, n_merges, alphabet=symbols, progress=progress, **options)
        made = [left + right.removeprefix(INSIDE) for left, right in merges]
        return cls(dict.fromkeys([*special, *symbols, *made]))

    @classmethod
    def of_json(
        cls,
        vocab: dict,
        unk_token: str = UNKNOWN,
        continuing_subword_prefix: str = INSIDE,
        max_input_chars_per_word: int = LONGEST_WORD,
    ) -> WordPiece:
        """The model with these settings in a `tokenizer.json`. Raises InputError for a damaged vocabulary."""
        tokens = files.tokens_from_ids(vocab, "its vocab")
        return cls(tokens, unk_token, continuing_subword_prefix, max_input_chars_per_word)

    def to_json(self) -> dict[str, Any]:
        """The model as a `tokenizer.json` describes it."""
        settings = {"unk_token": self.unknown, "continuing_subword_prefix": self.inside}
        return {"type": "WordPiece", **settings, "max_input_chars_per_word": self.longest, "vocab": self.ids}

    def encode(self, word: str) -> list[int]:
        """The ids of a word's pieces: the longest one that it begins with, and so on; or `unknown_id` alone."""
        if len(word) > self.longest:
            return [self.unknown_id]
        found = []
        start = 0
        pieces = self.ids
        while start < len(word):
            end = min(len(word), start + self._longest_piece)
            while end > start and word[start:end] not in pieces:
                end -= 1
            if end == start:
                return [self.unknown_id]
            found.append(pieces[word[start:end]])
            start = end
            pieces = self._inside
        return found

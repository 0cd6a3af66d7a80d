"""SentencePiece's byte-pair encoding (LLaMA 1 and 2, Mistral 7B v0.1, TinyLlama): pieces with scores (Kudo 2018).

GPT-2 keeps a list of pairs, in the order in which they were learnt. Here the vocabulary itself says what is merged: two
neighbours whose text is a piece, and the piece with the best score goes first. The score is minus the number of the
merge, so that both say nearly the same; but a piece may be made of any two parts, not of one pair alone.

The text is normalised first (`spiece_text.py`): `▁` stands for a space, and one is put in front. Characters without a
piece become `<unk>`, or their bytes, which have pieces of their own, `<0x00>` to `<0xFF>` (*byte fallback*).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from minigpt.errors import InputError, check_whole
from minigpt.tokenizer import bpe, spiece
from minigpt.tokenizer.base import check_text
from minigpt.tokenizer.bpe import Pair
from minigpt.tokenizer.bpe_model import BPEModel
from minigpt.tokenizer.spiece import NormalizerSpec, Piece, SentencePieceFile, TrainerSpec
from minigpt.tokenizer.word_counts import characters_of, check_room, counted, parts_of


class SentencePieceBPE(BPEModel):
    """The model of a file of SentencePiece: `encode(text)` cuts a normalised text, in which `▁` stands for spaces.

    content: of the file. Raises InputError for a model of another type.
    """

    def __init__(self, content: SentencePieceFile):
        if content.model_type != "bpe":
            raise InputError(f"a model of the type {content.model_type!r} is no BPE model: open it as what it is")
        tokens, _, kinds = zip(*content.pieces, strict=True)
        super().__init__(
            tokens,
            ranks_of(content.pieces),
            unknown_id=kinds.index(spiece.UNKNOWN),
            byte_fallback=content.trainer.byte_fallback,
            fuse=True,
        )
        self.ids = _ids_of_pieces(content.pieces)
        self._unused = set(content.pieces_of_kind(spiece.UNUSED))
        self._kept = spiece.pattern_of(content.pieces_of_kind(spiece.USER_DEFINED))

    @classmethod
    def train(cls, word_counts: Mapping[str, int] | str, vocab_size: int, **options: Any) -> SentencePieceBPE:
        """A vocabulary of `vocab_size` pieces that is learnt as in `learn`, which tells the options."""
        return cls(learn(word_counts, vocab_size, **options))

    def to_json(self) -> dict[str, Any]:
        """The model as a `tokenizer.json` describes it. Raises InputError for pieces of a kind that it does not know.
        """
        if self._unused or self._kept:
            raise InputError("a tokenizer.json knows no unused or user-defined pieces: save the file of SentencePiece")
        return super().to_json()

    def encode(self, text: str) -> list[int]:
        """The ids of the pieces of a normalised text. Raises InputError for what is no str."""
        check_text(text)
        if self._kept is None:
            return super().encode(text)
        ids = []
        for k, part in enumerate(self._kept.split(text)):
            ids += [self.ids[part]] if k % 2 == 1 else super().encode(part)
        return spiece.fused(ids, self.unknown_id)

    def _encode_word(self, word: str) -> list[int]:
        if not self._unused:
            return super()._encode_word(word)
        symbols, made_of = bpe.merge_long(word, self.ranks, best_first=True)
        ids = []
        for symbol in symbols:
            for used in self._without_unused(symbol, made_of):
                ids += self._ids_of(used)
        return ids

    def _without_unused(self, symbol: str, made_of: Mapping[str, Pair]) -> list[str]:
        """The symbol; one that is not used is cut again into the two that it was made of."""
        if symbol not in self._unused or symbol not in made_of:
            return [symbol]
        found = []
        for part in made_of[symbol]:
            found += self._without_unused(part, made_of)
        return found

    def _ids_of(self, symbol: str) -> list[int]:
        return self._unknown(symbol) if symbol in self._unused else super()._ids_of(symbol)


def _ids_of_pieces(pieces: Sequence[Piece]) -> dict[str, int]:
    """{piece: id}. One may be there twice, as a control piece and as one that stands for text: the first wins."""
    ids = {}
    for stands_for_text in (True, False):
        for i, piece in enumerate(pieces):
            if piece.stands_for_text == stands_for_text:
                ids[piece.text] = i
    return ids


def ranks_of(pieces: Iterable[Piece]) -> dict[Pair, float]:
    """{pair: its rank} for all ways to make a piece of two: minus the score of the piece.

    Both halves must be pieces or single characters, also such that are no piece. Pieces that the user named are cut out
    of the text before anything is merged, so that no pair makes them.
    """
    scores = {}
    for text, score, kind in pieces:
        if kind in (spiece.NORMAL, spiece.UNUSED):
            scores[text] = score
    ranks = {}
    for text, score in scores.items():
        for middle in range(1, len(text)):
            left, right = text[:middle], text[middle:]
            if (len(left) == 1 or left in scores) and (len(right) == 1 or right in scores):
                ranks[left, right] = -score
    return ranks


# ---------------------------------------------------------------------------------------------------------- training


def learn(
    word_counts: Mapping[str, int] | str,
    vocab_size: int,
    *,
    special: Sequence[str] = spiece.SPECIAL,
    user_defined: Sequence[str] = (),
    byte_fallback: bool = False,
    coverage: float = 0.9995,
    longest: int = 16,
    normalizer: NormalizerSpec = spiece.IDENTITY,
    progress: bool = True,
) -> SentencePieceFile:
    """The content of a file with `vocab_size` pieces, or with fewer where the text gives no more.

    word_counts {word: how often}, each word with its `▁` in front, or a text; special: pieces that stand for no text,
    the first one for what is unknown; user_defined: pieces that are always taken; byte_fallback: whether characters
    without a piece are written as bytes, which takes 256 pieces; coverage: the share of all characters that get a
    piece; longest: of how many characters a piece may be; normalizer: what the file says of the text before.

    Pairs of neighbours are counted in each word, the most frequent one is merged, and so on (`bpe.learn`), as in
    SentencePiece: no piece holds letters of two scripts, and characters follow the merges in the vocabulary. Raises
    InputError for a size that is too small, and for a text with nothing in it.
    """
    word_counts = counted(word_counts, vocab_size, coverage)
    check_whole("longest", longest, "a whole number of 1 or more", least=1)
    word_counts = _without(user_defined, word_counts)
    characters = characters_of(word_counts, coverage)
    first = spiece.first_pieces(special, user_defined)
    if byte_fallback:
        first += [Piece(token, 0.0, spiece.BYTE) for token in spiece.BYTES]
    check_room(vocab_size, len(first), characters)
    options = {"min_frequency": 1, "ties": "sentencepiece", "suffix": "", "longest": longest}
    n_merges = vocab_size - len(first) - len(characters)
    merges = bpe.train(parts_of(word_counts, characters), n_merges, progress=progress, **options)
    texts = [*(left + right for left, right in merges), *characters]
    named = {piece.text for piece in first}
    pieces = list(first)
    for rank, text in enumerate(texts):
        if text not in named:
            pieces.append(Piece(text, -float(rank)))
    trainer = TrainerSpec(spiece.BPE, len(pieces), byte_fallback=byte_fallback, unk_piece=special[0])
    return SentencePieceFile(pieces, trainer, normalizer)


def _without(tokens: Sequence[str], word_counts: Mapping[str, int]) -> Mapping[str, int]:
    """{part: how often} of words that are cut at these tokens."""
    kept = spiece.pattern_of(tokens)
    if kept is None:
        return word_counts
    counts = Counter()
    for word, count in word_counts.items():
        for part in kept.split(word)[::2]:
            counts[part] += count
    del counts[""]
    return counts

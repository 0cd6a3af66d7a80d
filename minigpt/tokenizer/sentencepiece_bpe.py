"""SentencePiece's byte-pair encoding (LLaMA 1 and 2, Mistral 7B v0.1, TinyLlama): pieces with scores (Kudo 2018).

GPT-2 keeps a list of pairs, in the order in which they were learnt. Here the vocabulary itself says what is merged: two
neighbours whose text is a piece, and the piece with the best score goes first. The score is minus the number of the
merge, so that both say nearly the same; but a piece may be made of any two parts, not of one pair alone.

The text is normalised first (`spiece_text.py`): `▁` stands for a space, and one is put in front. Characters without a
piece become `<unk>`, or their bytes, which have pieces of their own, `<0x00>` to `<0xFF>` (*byte fallback*).
"""

from __future__ import annotations

import heapq
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from itertools import chain

from minigpt.errors import InputError, check_share, check_whole, shown
from minigpt.tokenizer import bpe, spiece
from minigpt.tokenizer.base import Remembered, check_size, check_text
from minigpt.tokenizer.bpe import Pair
from minigpt.tokenizer.spiece import SPACE, NormalizerSpec, Piece, SentencePieceFile, TrainerSpec
from minigpt.tokenizer.unigram_training import characters_of, parts_of

SPECIAL = ("<unk>", "<s>", "</s>")
IDENTITY = NormalizerSpec("identity")
BYTES = tuple(f"<0x{byte:02X}>" for byte in range(256))  # the pieces of byte fallback

_BEFORE_SPACE = re.compile(f"{SPACE}*[^{SPACE}]+|{SPACE}+")  # words, where no piece goes on from a letter to a `▁`
_AFTER_SPACE = re.compile(f"[^{SPACE}]*{SPACE}+|[^{SPACE}]+")  # the same, where none goes on from a `▁` to a letter
_LETTER_SPACE = re.compile(f"[^{SPACE}]{SPACE}")
_SPACE_LETTER = re.compile(f"{SPACE}[^{SPACE}]")


class SentencePieceBPE:
    """Pieces and which pairs make them: `encode(text)` cuts a normalised text, in which `▁` stands for spaces.

    tokens: all pieces, their places are the ids; ranks {pair of neighbours: its rank}: the least one is merged first,
    and between equal ones the pair that stands further left; kinds: as in `spiece` (default: all stand for text);
    unknown_id: of what has no piece; byte_fallback: whether that is written as pieces of its bytes instead; fuse:
    whether neighbours that are unknown become one.
    """

    def __init__(
        self,
        tokens: Sequence[str],
        ranks: Mapping[Pair, float],
        kinds: Sequence[int] | None = None,
        *,
        unknown_id: int | None,
        byte_fallback: bool = False,
        fuse: bool = True,
    ):
        self.tokens = list(tokens)
        self.ranks = dict(ranks)
        self.kinds = [spiece.NORMAL] * len(self.tokens) if kinds is None else list(kinds)
        self.ids = _ids_of_pieces(self.tokens, self.kinds)
        self.unknown_id = unknown_id
        self.byte_fallback = byte_fallback
        self.fuse = fuse
        pieces = list(zip(self.tokens, self.kinds, strict=True))
        self._unused = {token for token, kind in pieces if kind == spiece.UNUSED}
        self._kept = spiece.pattern_of([token for token, kind in pieces if kind == spiece.USER_DEFINED])
        self._word = self._pattern_of_words()
        self._remembered = Remembered(self._encode_word)

    @classmethod
    def of(cls, content: SentencePieceFile) -> SentencePieceBPE:
        """The model in a file of SentencePiece. Raises InputError for one of another type."""
        if content.model_type != "bpe":
            raise InputError(f"a model of the type {content.model_type!r} is no BPE model: open it as what it is")
        tokens, scores, kinds = zip(*content.pieces, strict=True)
        ranks = ranks_of(content.pieces)
        unknown_id = kinds.index(spiece.UNKNOWN)
        return cls(tokens, ranks, kinds, unknown_id=unknown_id, byte_fallback=content.trainer.byte_fallback)

    @classmethod
    def train(cls, word_counts: Mapping[str, int] | str, vocab_size: int, **options) -> SentencePieceBPE:
        """A vocabulary of `vocab_size` pieces that is learnt as in `learn`, which tells the options."""
        return cls.of(learn(word_counts, vocab_size, **options))

    @property
    def merges(self) -> list[Pair]:
        """The pairs whose halves are both pieces, in their order: what `tokenizer.json` lists."""
        known = [pair for pair in self.ranks if pair[0] in self.ids and pair[1] in self.ids]
        return sorted(known, key=lambda pair: (self.ranks[pair], self.ids[pair[0]], self.ids[pair[1]]))

    def encode(self, text: str) -> list[int]:
        """The ids of the pieces of a normalised text. Raises InputError for what is no str, or cannot be spelled."""
        check_text(text)
        ids = []
        parts = self._kept.split(text) if self._kept else [text]
        for k, part in enumerate(parts):
            if k % 2 == 1:  # a piece that the user named, which is never merged
                ids.append(self.ids[part])
            else:
                ids += chain.from_iterable(map(self._remembered.__getitem__, self._words(part)))
        return self._fused(ids)

    def _words(self, text: str) -> list[str]:
        """The parts of a text that no piece reaches beyond."""
        if self._word is None:
            return [text] if text else []
        return self._word.findall(text)

    def _pattern_of_words(self) -> re.Pattern | None:
        """What words look like; None where a piece may reach from one word into the next."""
        merged = ["".join(pair) for pair in self.ranks]
        if not any(map(_LETTER_SPACE.search, merged)):
            return _BEFORE_SPACE
        if not any(map(_SPACE_LETTER.search, merged)):
            return _AFTER_SPACE
        return None

    def _encode_word(self, word: str) -> list[int]:
        symbols, made_of = merge(word, self.ranks)
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
        """The id of a symbol; of a character that is no piece, those of its bytes or that of the unknown."""
        if symbol in self.ids and symbol not in self._unused:
            return [self.ids[symbol]]
        if self.byte_fallback:
            names = [BYTES[byte] for byte in symbol.encode(errors="replace")]
            if all(name in self.ids for name in names):
                return [self.ids[name] for name in names]
        if self.unknown_id is None:
            raise InputError(f"the vocabulary cannot spell {symbol!r}, and has no piece for what is unknown")
        return [self.unknown_id]

    def _fused(self, ids: list[int]) -> list[int]:
        """The ids, neighbours that are unknown as one."""
        unknown = self.unknown_id
        if not self.fuse or unknown not in ids:
            return ids
        before = [None, *ids]
        return [i for i, previous in zip(ids, before, strict=False) if i != unknown or previous != unknown]


def _ids_of_pieces(tokens: Sequence[str], kinds: Sequence[int]) -> dict[str, int]:
    """{piece: id}. One may be there twice, as a control piece and as one that stands for text: the first wins."""
    ids = {}
    for stands_for_text in (True, False):
        for i, (token, kind) in enumerate(zip(tokens, kinds, strict=True)):
            if stands_for_text == (kind in (spiece.NORMAL, spiece.USER_DEFINED, spiece.UNUSED)):
                ids[token] = i
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


def merge(word: str, ranks: Mapping[Pair, float]) -> tuple[list[str], dict[str, Pair]]:
    """(the symbols of a word when no two neighbours can be merged, {symbol: the pair that makes it}).

    The best pair goes first, wherever it stands, and between equally good ones the one further left; what it makes
    possible may be next. Pairs wait in a heap, each with its place. Symbols stay where they are, and each knows its
    neighbours (a linked list): a pair whose symbols have changed by the time that it comes is passed over.
    """
    end = len(word)
    symbols = [*word, None]  # None: no symbol, as also where one was joined to the symbol before it
    before = list(range(-1, end))
    after = list(range(1, end + 2))
    waiting = []
    made_of = {}

    def propose(place: int, following: int) -> None:
        pair = (symbols[place], symbols[following])
        if pair in ranks:
            heapq.heappush(waiting, (ranks[pair], place, *pair))
            made_of[pair[0] + pair[1]] = pair

    for place in range(end - 1):
        propose(place, place + 1)
    while waiting:
        _, place, left, right = heapq.heappop(waiting)
        second = after[place]
        if symbols[place] != left or symbols[second] != right:
            continue
        symbols[place] = left + right
        symbols[second] = None
        following = after[second]
        after[place] = following
        before[following] = place
        if before[place] >= 0:
            propose(before[place], place)
        propose(place, following)
    return [symbol for symbol in symbols if symbol is not None], made_of


# ---------------------------------------------------------------------------------------------------------- training


def learn(
    word_counts: Mapping[str, int] | str,
    vocab_size: int,
    *,
    special: Sequence[str] = SPECIAL,
    user_defined: Sequence[str] = (),
    byte_fallback: bool = False,
    coverage: float = 0.9995,
    longest: int = 16,
    normalizer: NormalizerSpec = IDENTITY,
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
    check_size(vocab_size)
    check_share(coverage=coverage)
    check_whole("longest", longest, "a whole number of 1 or more", least=1)
    if isinstance(word_counts, str):
        word_counts = Counter(SPACE + word for word in word_counts.split())
    if not word_counts:
        raise InputError("there are no words to learn pieces from: the text is empty")
    word_counts = _without(user_defined, word_counts)
    characters = characters_of(word_counts, coverage)
    first = _first_pieces(special, user_defined, byte_fallback)
    least = len(first) + len(characters)
    if vocab_size < least:
        advice = f"give {least} or more, or a smaller coverage than {shown(coverage)}"
        raise InputError(f"{vocab_size} pieces do not hold the {len(characters)} characters of the text: {advice}")
    merges = bpe.train(
        parts_of(word_counts, characters),
        vocab_size - least,
        min_frequency=1,
        ties="sentencepiece",
        suffix="",
        longest=longest,
        progress=progress,
    )
    texts = [*(left + right for left, right in merges), *characters]
    named = {piece.text for piece in first}
    pieces = [*first, *(Piece(text, -float(rank)) for rank, text in enumerate(texts) if text not in named)]
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


def _first_pieces(special: Sequence[str], user_defined: Sequence[str], byte_fallback: bool) -> list[Piece]:
    """The pieces before those that are learnt."""
    pieces = [Piece(special[0], 0.0, spiece.UNKNOWN)]
    pieces += [Piece(token, 0.0, spiece.CONTROL) for token in special[1:]]
    pieces += [Piece(token, 0.0, spiece.USER_DEFINED) for token in user_defined]
    if byte_fallback:
        pieces += [Piece(token, 0.0, spiece.BYTE) for token in BYTES]
    return pieces

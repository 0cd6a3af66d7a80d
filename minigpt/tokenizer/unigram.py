"""Unigram: every piece has a probability, and a text is cut into the pieces whose product is greatest (Kudo 2018).

Byte-pair encoding learns an order of merges; here the model is a distribution over pieces. `Unigram` encodes with it:
the best way through the lattice of each word (`lattice.py`), or one that is drawn (*subword regularisation*).

`Unigram.train` learns pieces and probabilities from counted words (`unigram_training.py`).
"""

from __future__ import annotations

from array import array
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from math import inf, isfinite
from typing import Any, NamedTuple

import numpy as np
from tqdm import tqdm

from minigpt.errors import InputError, check_number, check_whole, is_number
from minigpt.tokenizer import spiece
from minigpt.tokenizer.base import Remembered, check_text
from minigpt.tokenizer.lattice import (
    FARTHEST,
    UNKNOWN_PENALTY,
    Vocabulary,
    best_way,
    lattice,
    rounded_viterbi,
    sample_path,
)
from minigpt.tokenizer.spiece import SPACE
from minigpt.tokenizer.unigram_training import finish, learn, seed_pieces
from minigpt.tokenizer.word_counts import (
    characters_of,
    check_followed,
    check_room,
    counted,
    followed_parts,
    followed_words,
    without_behind,
)

EPSILON = 2.0**-23  # half of it is what a number of about 1 with 32 bits may be wrong by


class _Cut(NamedTuple):
    """How a word is cut where the sum of the scores before it is smaller than `limit`. size: the sum of its own."""

    ids: list[int]
    scores: list[float]
    size: float
    limit: float


class Unigram:
    """Pieces and how likely each is: `encode(text)` cuts a normalised text, in which `▁` stands for spaces.

    tokens: all pieces, their places are the ids; scores: their log-probabilities; kinds: as in `spiece` (default: all
    stand for text); unknown_id: of what has no piece; byte_fallback: whether that is written as pieces `<0x00>` to
    `<0xFF>` instead; rounds: whether sums of scores have 32 bits, which decides between equal ways as in SentencePiece;
    the library `tokenizers` has 64.
    """

    def __init__(
        self,
        tokens: Sequence[str],
        scores: Sequence[float],
        kinds: Sequence[int] | None = None,
        *,
        unknown_id: int | None,
        byte_fallback: bool = False,
        rounds: bool = True,
    ):
        self.tokens = list(tokens)
        self.scores: list[float] = np.asarray(scores, np.float32).tolist() if rounds else list(scores)
        self.kinds = [spiece.NORMAL] * len(self.tokens) if kinds is None else list(kinds)
        self.ids = {token: i for i, token in enumerate(self.tokens)}
        self.unknown_id = unknown_id
        self.byte_fallback = byte_fallback
        self.rounds = rounds
        normal = [score for score, kind in zip(self.scores, self.kinds, strict=True) if kind == spiece.NORMAL]
        self._id_of = {}  # {piece that stands for text: its id}
        score_of = {}
        for i, (token, score, kind) in enumerate(zip(self.tokens, self.scores, self.kinds, strict=True)):
            if kind == spiece.USER_DEFINED:
                score = _user_defined_score(token, max(normal, default=0.0))
            if kind in (spiece.NORMAL, spiece.USER_DEFINED):
                self._id_of[token] = i
                score_of[token] = score
        self.vocabulary = Vocabulary(score_of, _unknown_score(normal, rounds))
        self._largest = max(map(abs, [*score_of.values(), self.vocabulary.unknown]))
        self._splits = not any(SPACE in token[1:] for token in score_of)  # a word can be cut alone
        self._fused_id = None if byte_fallback else unknown_id  # neighbours with this id become one
        self._remembered = Remembered(self._cut)

    @classmethod
    def of(cls, content: spiece.SentencePieceFile) -> Unigram:
        """The model in a file of SentencePiece. Raises InputError for one of another type."""
        if content.model_type != "unigram":
            raise InputError(f"a model of the type {content.model_type!r} is no Unigram model: open it as what it is")
        tokens, scores, kinds = zip(*content.pieces, strict=True)
        unknown_id = kinds.index(spiece.UNKNOWN)
        return cls(tokens, scores, kinds, unknown_id=unknown_id, byte_fallback=content.trainer.byte_fallback)

    def to_file(self, normalizer: spiece.NormalizerSpec = spiece.IDENTITY) -> spiece.SentencePieceFile:
        """The model as a file of SentencePiece, whose package cuts texts into the same pieces.

        Raises InputError where nothing stands for what is unknown.
        """
        if self.unknown_id is None:
            raise InputError("a file of SentencePiece has a piece for what is unknown, and this vocabulary has none")
        trainer = spiece.TrainerSpec(
            vocab_size=len(self.tokens),
            byte_fallback=self.byte_fallback,
            unk_id=self.unknown_id,
            bos_id=self.ids.get("<s>", -1),
            eos_id=self.ids.get("</s>", -1),
            pad_id=self.ids.get("<pad>", -1),
            unk_piece=self.tokens[self.unknown_id],
        )
        pieces = [spiece.Piece(*piece) for piece in zip(self.tokens, self.scores, self.kinds, strict=True)]
        return spiece.SentencePieceFile(pieces, trainer, normalizer)

    @classmethod
    def of_json(cls, vocab: list, unk_id: int | None = None, byte_fallback: bool = False) -> Unigram:
        """The model with these settings in a `tokenizer.json`; its scores are added with 64 bits.

        Raises InputError for damaged ones.
        """
        if not vocab or not all(map(_is_scored, vocab)):
            raise InputError("its vocab must be a list of pairs [piece, score]")
        if unk_id is not None and not 0 <= unk_id < len(vocab):
            raise InputError(f"its unk_id is {unk_id}: expected null or the id of a piece, 0 to {len(vocab) - 1}")
        tokens, scores = zip(*vocab, strict=True)
        if byte_fallback and not set(spiece.BYTES) <= set(tokens):
            raise InputError("its byte_fallback needs the pieces <0x00> to <0xFF>: not all are there")
        return cls(tokens, scores, unknown_id=unk_id, byte_fallback=byte_fallback, rounds=False)

    def to_json(self) -> dict[str, Any]:
        """The model as a `tokenizer.json` describes it."""
        pairs = [list(pair) for pair in zip(self.tokens, self.scores, strict=True)]
        return {"type": "Unigram", "unk_id": self.unknown_id, "vocab": pairs, "byte_fallback": self.byte_fallback}

    @classmethod
    def train(
        cls,
        word_counts: Mapping[str, int] | str,
        vocab_size: int,
        *,
        special: Sequence[str] = spiece.SPECIAL,
        user_defined: Sequence[str] = (),
        coverage: float = 0.9995,
        longest: int = 16,
        n_seeds: int = 1_000_000,
        progress: bool = True,
    ) -> Unigram:
        """A vocabulary of `vocab_size` pieces, or of less where the text gives no more.

        word_counts {word: how often}, or a text; a word has its `▁` in front, and behind it the `▁` of the next word or
        `\\n` (`word_counts.followed_words`). special: pieces that stand for no text, the first one for what is unknown;
        user_defined: pieces that are always taken; coverage: the share of all characters that get a piece; longest: of
        how many characters a piece may be. Raises InputError for a size that is too small, for a text with nothing in
        it, and for a word without the character behind it.
        """
        if isinstance(word_counts, str):
            lines = word_counts.splitlines()
            word_counts = Counter(word for line in lines for word in followed_words(line.split()))
        word_counts = counted(word_counts, vocab_size, coverage)
        check_followed(word_counts)
        check_whole("longest", longest, "a whole number of 1 or more", least=1)
        characters = characters_of(without_behind(word_counts), coverage)
        first = spiece.first_pieces(special, user_defined)
        check_room(vocab_size, len(first), characters)
        parts = followed_parts(word_counts, characters)
        steps = learn(without_behind(parts), vocab_size, seed_pieces(parts, n_seeds, longest))
        for step in tqdm(steps, desc="steps of EM", unit="", disable=not progress):
            scores = step.scores
        final = finish(scores, characters, vocab_size - len(first))
        named = [piece._replace(score=final.pop(piece.text, 0.0)) for piece in first]
        learnt = [spiece.Piece(text, score) for text, score in final.items()]
        tokens, scores, kinds = zip(*named, *learnt, strict=True)
        return cls(tokens, scores, kinds, unknown_id=0)

    def encode(self, text: str) -> list[int]:
        """The ids of the likeliest pieces of a normalised text. Raises InputError for what is no str."""
        check_text(text)
        words = self._words(text)
        remembered = self._remembered
        cuts = [remembered[word] for word in words]
        size = sum([cut.size for cut in cuts])
        if 1.01 * size < min([cut.limit for cut in cuts], default=inf):  # the rounding of the sums is far below 1 %
            ids = [i for cut in cuts for i in cut.ids]
        else:
            ids = self._rounded(words, cuts)
        return spiece.fused(ids, self._fused_id)

    def _rounded(self, words: list[str], cuts: list[_Cut]) -> list[int]:
        """The ids of a text that is so long, or has words with two ways so nearly equal, that rounding counts."""
        ids = []
        total = array("f", [0.0])  # what is stored in it is rounded
        for word, cut in zip(words, cuts, strict=True):
            if abs(total[0]) < cut.limit:
                ids += cut.ids
                for score in cut.scores:
                    total[0] += score
            else:
                pieces, total[0] = rounded_viterbi(lattice(word, self.vocabulary), total[0])
                ids += self._ids_of(pieces)
        return ids

    def sample(self, text: str, alpha: float, generator: np.random.Generator) -> list[int]:
        """The ids of pieces drawn by their probability to the power alpha: another way to cut the text each time.

        Raises InputError for what is no str, and for an alpha that is no number of 0 or more.
        """
        check_text(text)
        check_number("alpha", alpha, "a number of 0 or more, such as 0.1", least=0, below=inf)
        ids = []
        for word in self._words(text):
            ids += self._ids_of(sample_path(lattice(word, self.vocabulary), alpha, generator))
        return spiece.fused(ids, self._fused_id)

    def _words(self, text: str) -> list[str]:
        """The parts of a text that no piece reaches beyond: each begins with a `▁`, but for the first."""
        if not self._splits:
            return [text] if text else []
        first, *parts = text.split(SPACE)
        words = [SPACE + part for part in parts]
        return [first, *words] if first else words

    def _cut(self, word: str) -> _Cut:
        """The best pieces of a word, and up to which sum before it they are the best.

        Sums are rounded, the more the greater they are, so what stands before a word can decide between two ways that
        are nearly equal. No way has more pieces than the word has characters, and adding each is wrong by half of
        EPSILON times the sum at most: two ways that differ by the margin keep their order while the sum is small.
        """
        pieces, margin = best_way(word, self.vocabulary)
        known = self.vocabulary.scores
        unknown = self.vocabulary.unknown
        scores = [known.get(piece, unknown) for piece in pieces]
        size = sum(map(abs, scores))
        limit = inf
        if self.rounds:
            longest = len(word) * self._largest  # no way to a place in the word has a greater sum
            limit = min(margin / (EPSILON * (len(word) + 1)), FARTHEST) - longest
        return _Cut(self._ids_of(pieces), scores, size, limit)

    def _ids_of(self, pieces: list[str]) -> list[int]:
        """The ids of pieces; of a character that is none, that of the unknown or those of its bytes."""
        ids = []
        for piece in pieces:
            if piece in self._id_of:
                ids.append(self._id_of[piece])
            elif self.byte_fallback:
                ids += [self.ids[byte] for byte in spiece.bytes_of(piece)]
            elif self.unknown_id is not None:
                ids.append(self.unknown_id)
            else:
                raise InputError(f"the vocabulary cannot spell {piece!r}, and has no piece for what is unknown")
        return ids


def _is_scored(pair: Any) -> bool:
    """Is this a piece and its score?"""
    if not isinstance(pair, list | tuple) or len(pair) != 2 or not isinstance(pair[0], str):
        return False
    return is_number(pair[1]) and isfinite(pair[1])


def _unknown_score(normal: Iterable[float], rounds: bool) -> float:
    score = min(normal, default=0.0) - UNKNOWN_PENALTY
    return float(np.float32(score)) if rounds else score


def _user_defined_score(piece: str, most: float) -> float:
    """A score at which a piece that the user named is always taken: each byte as good as the best piece, and above 0.

    The 0.1 are those of SentencePiece 0.2.3: they stand in the sums, and so decide between equal ways behind the piece.
    """
    best = np.float32(max(most, 0.1))
    return float(np.float32(len(piece.encode())) * best) - 0.1

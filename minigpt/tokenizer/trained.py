"""Vocabularies of the kinds that the family uses, learned from a text: the ones of `minigpt tokenizer train --kind`."""

from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path

from minigpt.tokenizer import published, sentencepiece_bpe, spiece_members, steps_before, vocabularies
from minigpt.tokenizer.base import pieces_of
from minigpt.tokenizer.char import CharTokenizer
from minigpt.tokenizer.gpt1 import GPT1Tokenizer
from minigpt.tokenizer.gpt2 import GPT2Tokenizer
from minigpt.tokenizer.pipeline import PieceTokenizer
from minigpt.tokenizer.spiece import IDENTITY, SPACE, SentencePieceFile
from minigpt.tokenizer.spiece_text import Normalizer
from minigpt.tokenizer.unigram import Unigram
from minigpt.tokenizer.word_counts import followed_words
from minigpt.tokenizer.wordpiece import WordPiece

NOWHERE = Path("a new vocabulary")  # its folder, for messages
NAMES = {"unk_token": "<unk>", "bos_token": "<s>", "eos_token": "</s>"}


def wordpiece(texts: str | Iterable[str], vocab_size: int, *, progress: bool = True) -> PieceTokenizer:
    """BERT's tokenizer with a vocabulary learned from texts. Capitals and accents stay, so Hangul keeps its syllables.

    Raises InputError as `WordPiece.train` does.
    """
    config = {"tokenizer_class": "BertTokenizer", "do_lower_case": False, "strip_accents": False}
    normalizer = steps_before.bert_normalizer(lowercase=False)
    splitter = steps_before.bert_splitter()
    counts = Counter()
    for text in pieces_of(texts):
        counts.update(splitter(normalizer(text), True))
    model = WordPiece.train(counts, vocab_size, progress=progress)
    bert = vocabularies.members()[vocabularies.BERT]
    return published.of_vocabulary(model.tokens, [], bert, config, NOWHERE)


def unigram(texts: str | Iterable[str], vocab_size: int, *, progress: bool = True) -> PieceTokenizer:
    """The likeliest pieces, learned from texts. Raises InputError as `Unigram.train` does."""
    counts = Counter(word for words in _lines(texts) for word in followed_words(words))
    model = Unigram.train(counts, vocab_size, progress=progress)
    return _of_file(model.to_file(), "spiece.model")


def bpe(texts: str | Iterable[str], vocab_size: int, *, progress: bool = True) -> PieceTokenizer:
    """SentencePiece's byte-pair encoding, with bytes for characters without a piece.

    Raises InputError as `sentencepiece_bpe.learn` does.
    """
    counts = Counter(SPACE + word for words in _lines(texts) for word in words)
    learned = sentencepiece_bpe.learn(counts, vocab_size, byte_fallback=True, progress=progress)
    return _of_file(learned, "tokenizer.model")


def _lines(texts: str | Iterable[str]) -> Iterator[list[str]]:
    """The words of each line."""
    normalizer = Normalizer(IDENTITY)
    for text in pieces_of(texts):
        for line in text.splitlines():
            yield [word for word in normalizer(line).split(SPACE) if word]


def _of_file(content: SentencePieceFile, name: str) -> PieceTokenizer:
    return spiece_members.tokenizer_of(spiece_members.Member("sentencepiece"), content, NAMES, NOWHERE / name)


TRAINERS = {  # {kind: learns one from texts, with `vocab_size` tokens but for "char"}
    "gpt1": GPT1Tokenizer.train,
    "gpt2": GPT2Tokenizer.train,
    "char": CharTokenizer.train,
    "wordpiece": wordpiece,
    "unigram": unigram,
    "bpe": bpe,
}

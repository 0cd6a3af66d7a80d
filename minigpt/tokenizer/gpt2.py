"""GPT-2's tokenizer: byte-pair encoding that starts from bytes, so it spells every text and loses nothing (GPT-2 §2.2).

Text is split into words that keep the space before them; a word is written as its UTF-8 bytes; the merges join bytes.
In files and in `tokens` a byte is written as a printable character: the space as Ġ, the line end as Ċ.
"""

from __future__ import annotations

import codecs
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import regex

from minigpt.errors import InputError, check_folder
from minigpt.tokenizer import bpe, layouts, words
from minigpt.tokenizer.base import Remembered, Stream, Tokenizer, check_size, check_text, pieces_of
from minigpt.tokenizer.files import HUGGING_FACE_FILES
from minigpt.tokenizer.many_words import ManyWords
from minigpt.tokenizer.settings import MORE_SPECIAL
from minigpt.tokenizer.words import WORD, stretches_of

END_OF_TEXT = "<|endoftext|>"
OPENAI_FILES = ("encoder.json", "vocab.bpe")

FEW_WORDS = 1000  # fewer new words are encoded one by one


def bytes_to_unicode() -> dict[int, str]:
    """{byte: the character that it is written as}, in the order of their ids (OpenAI's `bytes_to_unicode`).

    The 188 bytes that Latin-1 prints are written as that; the other 68, in order, as U+0100 and those after it.
    """
    characters = {}
    for byte in [*range(33, 127), *range(161, 173), *range(174, 256)]:
        characters[byte] = chr(byte)
    next_code = 256
    for byte in range(256):
        if byte not in characters:
            characters[byte] = chr(next_code)
            next_code += 1
    return characters


CHARACTER_OF = bytes_to_unicode()
BYTE_OF = {character: byte for byte, character in CHARACTER_OF.items()}


def spell(word: str) -> str:
    """A character for each byte of the word: ` é` gives `ĠÃ©`. Raises InputError for half a surrogate pair."""
    return _bytes_in(word).decode("latin-1").translate(CHARACTER_OF)


def _bytes_in(word: str) -> bytes:
    try:
        return word.encode("utf-8")
    except UnicodeEncodeError as error:
        half = f"the text holds {word[error.start]!a}, one half of a surrogate pair, which has no UTF-8"
        raise InputError(f"{half}: decode the text from its source again, or leave it out") from None


def n_merges_in(vocab_size: int, special: Sequence[str]) -> int:
    """How many merges a vocabulary of that size has, beside the bytes and these tokens.

    Raises InputError for a size that is no whole number, or too small for the bytes.
    """
    check_size(vocab_size)
    smallest = len(CHARACTER_OF) + len(special)
    if vocab_size < smallest:
        what = " and ".join(["the bytes", *special])
        raise InputError(f"a vocabulary of {vocab_size} is too small: {what} take {smallest}")
    return vocab_size - smallest


def learn_merges(word_counts: Mapping[str, int], n_merges: int, **options: Any) -> list[bpe.Pair]:
    """The merges of words, {word: how often it occurs}, that are spelled as bytes. options: as in `bpe.train`."""
    spelled = {spell(word): n for word, n in word_counts.items()}
    return bpe.train(spelled, n_merges, suffix="", alphabet=list(CHARACTER_OF.values()), **options)


class GPT2Tokenizer(Tokenizer):
    """Any text to ids and back, unchanged: `decode(encode(s)) == s`.

    tokens: in the order of their ids, written as by `spell`; merges: pairs of symbols, first learnt first; special:
    tokens that stand for no text, such as `<|endoftext|>` between documents. A text that spells one is plain text,
    unless `encode` is told otherwise. prefix_space: put a space before a text that begins with none, as vocabularies of
    others may want (GPT-2's does not): the first word is then spelled as it is inside a text, and `decode` gives the
    space back. Raises InputError where a special token is no token, or a token is no bytes.
    """

    holds_the_space_before = True

    def __init__(
        self,
        tokens: Iterable[str],
        merges: Sequence[bpe.Pair],
        special: Collection[str] = (END_OF_TEXT,),
        *,
        prefix_space: bool = False,
    ):
        super().__init__(tokens)
        self.prefix_space = prefix_space
        self.merges = list(merges)
        self.special = tuple(special)
        missing = [token for token in self.special if token not in self.ids]
        if missing:
            raise InputError(f"the vocabulary lacks the special token {missing[0]!r}: add it, or name other ones")
        self._ranks = {pair: rank for rank, pair in enumerate(self.merges)}
        self._bytes = [self._bytes_of(token) for token in self.tokens]
        # The ids of words are remembered as strings of chr(id), which are joined faster than lists.
        self._words = Remembered(self._encode_word, self._encode_words)

    @classmethod
    def train(
        cls,
        texts: str | Iterable[str],
        vocab_size: int,
        *,
        min_frequency: int = 2,
        ties: str = "tokenizers",
        progress: bool = True,
    ) -> GPT2Tokenizer:
        """Learn a vocabulary of `vocab_size` tokens from a text, or from several; `<|endoftext|>` in them is left out.

        There will be fewer where pairs run out that are seen `min_frequency` times. The layout is that of the released
        vocabulary: the 256 bytes, a symbol for each merge, `<|endoftext|>`. OpenAI has not published its trainer, so
        between equally frequent pairs we choose: the one whose ids come first (see `bpe.learn`). Raises InputError for
        texts that are empty, and for a size that is too small for the bytes.
        """
        n_merges = n_merges_in(vocab_size, [END_OF_TEXT])
        counts = _count_words(texts)
        if not counts:
            raise InputError("there is nothing to learn a vocabulary from: the text is empty")
        merges = learn_merges(counts, n_merges, min_frequency=min_frequency, ties=ties, progress=progress)
        merged = [left + right for left, right in merges]
        return cls([*CHARACTER_OF.values(), *merged, END_OF_TEXT], merges)

    @classmethod
    def load(cls, folder: str | Path) -> GPT2Tokenizer:
        """Open a folder that `save`, OpenAI or Hugging Face wrote. Raises InputError where a file is damaged."""
        names = (HUGGING_FACE_FILES, OPENAI_FILES)
        found = layouts.read_bpe(Path(folder), layouts.BYTES, *names, special=[END_OF_TEXT])
        return cls(found.tokens, found.merges, found.special, prefix_space=found.prefix_space)

    def save(self, folder: str | Path, names: tuple[str, str] = HUGGING_FACE_FILES) -> None:
        """Write the vocabulary and the merges under these names (or `OPENAI_FILES`), and `tokenizer_config.json`."""
        check_folder(folder)
        config = {"tokenizer_class": "GPT2Tokenizer", "add_prefix_space": self.prefix_space}
        if END_OF_TEXT in self.special:
            for key in ("bos_token", "eos_token", "unk_token"):
                config[key] = END_OF_TEXT
        more = [token for token in self.special if token != END_OF_TEXT]
        if more:
            config[MORE_SPECIAL] = more
        layouts.write_bpe(Path(folder), names, self.tokens, self.merges, config)

    @property
    def newline_id(self) -> int | None:
        """The id of a line end; None where the vocabulary has none."""
        return self.ids.get(CHARACTER_OF[ord("\n")])

    @property
    def end_of_text_id(self) -> int | None:
        """The id of `<|endoftext|>`; None where that is no special token."""
        if END_OF_TEXT not in self.special:
            return None
        return self.ids[END_OF_TEXT]

    def encode(self, text: str, allowed_special: Collection[str] = ()) -> list[int]:
        """The ids of a text. Words met before are remembered.

        allowed_special: special tokens that the text may hold, or "all" of them. The others are plain text, so that a
        user's text does not end a document by accident. Raises InputError for what is no str, for a token that is not
        special, and for half a surrogate pair in the text.
        """
        check_text(text)
        allowed = self.special if allowed_special == "all" else allowed_special
        for token in allowed:
            if token not in self.special:
                known = ", ".join(self.special) or "none"
                raise InputError(f"{token!r} is not a special token here: there are {known}")
        letters = []  # strings of chr(id)
        for k, part in enumerate(_split_at(text, allowed)):
            if k % 2 == 1:  # a special token
                letters.append(chr(self.ids[part]))
            else:
                if self.prefix_space and part and not part.startswith(" "):
                    part = " " + part
                letters += map(self._encode_stretch, stretches_of(part))
        raw = "".join(letters).encode("utf-32-le", "surrogatepass")
        return np.frombuffer(raw, "<u4").tolist()

    def decode(self, ids: Iterable[int]) -> str:
        """The text of any ids. Bytes that are no UTF-8, as in half a character, become U+FFFD.

        Raises InputError for an id that is not in the vocabulary.
        """
        as_bytes = b"".join([self._bytes[i] for i in self._check(ids)])
        return as_bytes.decode("utf-8", errors="replace")

    def streaming(self) -> ByteStream:
        """A decoder for ids that come one by one, which gives out whole characters only."""
        return ByteStream(self)

    def readable(self, token: str) -> str:
        """The text of a token, with bytes that are no whole character as `\\xea`."""
        as_bytes = self._bytes[self.ids[token]]
        return super().readable(as_bytes.decode("utf-8", errors="backslashreplace"))

    def _extended(self, tokens: list[str], names: Sequence[str]) -> GPT2Tokenizer:
        return GPT2Tokenizer(tokens, self.merges, (*self.special, *names), prefix_space=self.prefix_space)

    def _bytes_of(self, token: str) -> bytes:
        if token in self.special:
            return token.encode("utf-8")
        try:
            return bytes(map(BYTE_OF.__getitem__, token))
        except KeyError as error:
            raise InputError(f"the token {token!r} is not byte-level: {error.args[0]!r} stands for no byte") from None

    def _encode_stretch(self, stretch: str) -> str:
        if len(stretch) < words.SHORT:
            return "".join(map(self._words.__getitem__, WORD.findall(stretch)))
        distinct, places = words.distinct_words(stretch)
        letters = np.array(self._words.of(distinct), object)
        return "".join(letters[places].tolist())

    def _encode_words(self, new: list[str]) -> list[str]:
        if len(new) < FEW_WORDS or not self._many_words.is_whole:
            return list(map(self._encode_word, new))
        encoded = self._many_words.letters(list(map(_bytes_in, new)))  # nothing for a word that is too long for it
        return [letters or self._encode_word(word) for word, letters in zip(new, encoded, strict=True)]

    @cached_property
    def _many_words(self) -> ManyWords:
        alphabet = [CHARACTER_OF[byte] for byte in range(256)]
        return ManyWords(self._ranks, self.ids, alphabet)

    def _encode_word(self, word: str) -> str:
        symbols = bpe.merge(spell(word), self._ranks)
        try:
            return "".join([chr(self.ids[symbol]) for symbol in symbols])
        except KeyError as error:
            raise InputError(f"the vocabulary lacks {error.args[0]!r}, which {word!r} needs: it is not whole") from None


def _count_words(texts: str | Iterable[str]) -> Counter[str]:
    """{word: how often it occurs in the texts}. No word goes on across `<|endoftext|>`."""
    counts = Counter()
    for text in pieces_of(texts):
        for document in text.split(END_OF_TEXT):
            counts.update(words.count_words(document))
    return counts


def _split_at(text: str, tokens: Collection[str]) -> list[str]:
    """A text split at these tokens: plain text, a token, plain text, ...; the longest token wins."""
    if not tokens:
        return [text]
    longest_first = sorted(tokens, key=len, reverse=True)
    pattern = "|".join(map(regex.escape, longest_first))
    return regex.split(f"({pattern})", text)


class ByteStream(Stream):
    """Decodes ids whose tokens are bytes: a character is given out when its last byte has come."""

    def __init__(self, tokenizer: GPT2Tokenizer):
        self._tokenizer = tokenizer
        self._decoder = codecs.getincrementaldecoder("utf-8")(errors="replace")

    def feed(self, i: int) -> str:
        """Take one id; return the characters that it completes. Raises InputError for an id that there is not."""
        checked = self._tokenizer._check([i])
        return self._decoder.decode(self._tokenizer._bytes[checked[0]])

    def end(self) -> str:
        """U+FFFD for a character that was begun and has not been completed; else nothing."""
        return self._decoder.decode(b"", final=True)

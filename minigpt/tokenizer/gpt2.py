"""GPT-2's tokenizer: byte-pair encoding that starts from bytes, so it spells every text and loses nothing (GPT-2 §2.2).

Text is split into words that keep the space before them; a word is written as its UTF-8 bytes; the merges join bytes.
In files and in `tokens` a byte is written as a printable character: the space as Ġ, the line end as Ċ.
"""

from __future__ import annotations

import codecs
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Sequence
from itertools import chain
from pathlib import Path

import numpy as np
import regex

from minigpt.errors import InputError
from minigpt.tokenizer import bpe, files
from minigpt.tokenizer.base import Remembered, Stream, Tokenizer
from minigpt.tokenizer.files import HUGGING_FACE_FILES

END_OF_TEXT = "<|endoftext|>"
OPENAI_FILES = ("encoder.json", "vocab.bpe")
MORE_SPECIAL = "additional_special_tokens"  # in tokenizer_config.json

WORD = regex.compile(r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+")
_BREAK = regex.compile(r"(?<=\S)\s")  # no word goes on here, and none looks further back
_SPACES = regex.findall(r"\s", "".join(map(chr, range(0x3001))))  # all that the pattern knows
_BAR = "\ud800"  # half a surrogate pair: no text that has UTF-8 holds it, so it may stand between parts of any text
_PIECE = 1 << 18


def bytes_to_unicode() -> dict[int, str]:
    """{byte: the character that it is written as}, in the order of their ids.

    The 188 bytes that Latin-1 prints are written as that; the other 68, in order, as U+0100 and those after it.
    """
    printable = [*range(33, 127), *range(161, 173), *range(174, 256)]
    others = [byte for byte in range(256) if byte not in printable]
    return {byte: chr(byte) for byte in printable} | {byte: chr(256 + i) for i, byte in enumerate(others)}


CHARACTER_OF = bytes_to_unicode()
BYTE_OF = {character: byte for byte, character in CHARACTER_OF.items()}


def words_of(text: str) -> Iterator[str]:
    """The words of a text, of which none is lost: `I'm here.` gives `I`, `'m`, ` here`, `.`."""
    return chain.from_iterable(map(WORD.findall, _pieces_of(text)))


def runs_of(text: str) -> Iterator[str]:
    """White space and what follows up to the next: `I'm here.` gives `I'm`, ` here.`. No word lies in two of them.

    They are found quickly, and most have been met before: only new ones need to be searched for words.
    """
    return chain.from_iterable(map(_runs_in, _pieces_of(text)))


def _runs_in(piece: str) -> list[str]:
    if _BAR in piece:
        spell(_BAR)  # says what is wrong
    spaces = [space for space in _SPACES if space in piece]
    for space in spaces:
        piece = piece.replace(space, _BAR + space)
    for space in spaces:
        piece = piece.replace(space + _BAR, space)
    return piece.split(_BAR)


def _pieces_of(text: str) -> Iterator[str]:
    start = 0
    while start < len(text):  # piece by piece: a list of all words of a book would be larger than the book
        found = _BREAK.search(text, start + _PIECE)
        end = found.start() if found else len(text)
        yield text[start:end]
        start = end


def spell(word: str) -> str:
    """A character for each byte of the word: ` é` gives `ĠÃ©`. Raises InputError for half a surrogate pair."""
    try:
        return word.encode("utf-8").decode("latin-1").translate(CHARACTER_OF)
    except UnicodeEncodeError as error:
        half = f"the text holds {word[error.start]!a}, one half of a surrogate pair, which has no UTF-8"
        raise InputError(f"{half}: decode the text from its source again, or leave it out") from None


class GPT2Tokenizer(Tokenizer):
    """Any text to ids and back, unchanged: `decode(encode(s)) == s`.

    tokens: in the order of their ids, written as by `spell`; merges: pairs of symbols, first learnt first; special:
    tokens that stand for no text, such as `<|endoftext|>` between documents. No text becomes one unasked.
    """

    def __init__(self, tokens: Iterable[str], merges: Sequence[bpe.Pair], special: Collection[str] = (END_OF_TEXT,)):
        super().__init__(tokens)
        self.merges = list(merges)
        self.special = tuple(special)
        missing = [token for token in self.special if token not in self.ids]
        if missing:
            raise InputError(f"the vocabulary lacks the special token {missing[0]!r}: add it, or name other ones")
        self._ranks = {pair: rank for rank, pair in enumerate(self.merges)}
        self._bytes = [self._bytes_of(token) for token in self.tokens]
        self._words = Remembered(self._encode_word)  # a string of chr(id) for each
        self._runs = Remembered(lambda run: "".join(map(self._words.__getitem__, WORD.findall(run))))

    @classmethod
    def train(
        cls, texts: str | Iterable[str], vocab_size: int, *, min_frequency: int = 2, ties: str = "tokenizers",
        progress: bool = True,
    ) -> GPT2Tokenizer:
        """Learn a vocabulary of `vocab_size` tokens from a text, or from several; `<|endoftext|>` in them is left out.

        There will be fewer where pairs run out that are seen `min_frequency` times. The layout is that of the released
        vocabulary: the 256 bytes, a symbol for each merge, `<|endoftext|>`. OpenAI has not published its trainer, so
        between equally frequent pairs we choose: the one whose ids come first (see `bpe.learn`).
        """
        alphabet = list(CHARACTER_OF.values())
        smallest = len(alphabet) + 1
        if vocab_size < smallest:
            raise InputError(f"a vocabulary of {vocab_size} is too small: the bytes and {END_OF_TEXT} take {smallest}")
        runs, words = Counter(), Counter()
        for text in [texts] if isinstance(texts, str) else texts:
            for part in text.split(END_OF_TEXT):
                runs.update(runs_of(part))
        for run, n in runs.items():
            for word in WORD.findall(run):
                words[word] += n
        if not words:
            raise InputError("there is nothing to learn a vocabulary from: the text is empty")
        spelled = {spell(word): n for word, n in words.items()}
        options = {"min_frequency": min_frequency, "ties": ties, "suffix": "", "alphabet": alphabet}
        merges = bpe.train(spelled, vocab_size - smallest, progress=progress, **options)
        return cls([*alphabet, *(left + right for left, right in merges), END_OF_TEXT], merges)

    @classmethod
    def load(cls, folder: str | Path) -> GPT2Tokenizer:
        """Open a folder that `save`, OpenAI or Hugging Face wrote."""
        tokens, merges, special = files.read_bpe(Path(folder), HUGGING_FACE_FILES, OPENAI_FILES)
        config = files.read_config(folder)
        if config.get("add_prefix_space"):
            raise InputError(f"{Path(folder) / files.CONFIG} asks for add_prefix_space, which is not GPT-2's way")
        more = config.get(MORE_SPECIAL)
        more = [token.get("content") if isinstance(token, dict) else token for token in more or ()]
        special = dict.fromkeys([END_OF_TEXT, *special, *(token for token in more if isinstance(token, str))])
        return cls(tokens, merges, [token for token in special if token in tokens])

    def save(self, folder: str | Path, names: tuple[str, str] = HUGGING_FACE_FILES) -> None:
        """Write the vocabulary and the merges under these names (or `OPENAI_FILES`), and `tokenizer_config.json`."""
        config = {"tokenizer_class": "GPT2Tokenizer", "add_prefix_space": False}
        if END_OF_TEXT in self.special:
            config |= dict.fromkeys(("bos_token", "eos_token", "unk_token"), END_OF_TEXT)
        more = [token for token in self.special if token != END_OF_TEXT]
        files.write_bpe(Path(folder), names, self.tokens, self.merges, config | ({MORE_SPECIAL: more} if more else {}))

    @property
    def newline_id(self) -> int | None:
        return self.ids.get(CHARACTER_OF[ord("\n")])

    @property
    def end_of_text_id(self) -> int | None:
        return self.ids[END_OF_TEXT] if END_OF_TEXT in self.special else None

    def encode(self, text: str, allowed_special: Collection[str] = ()) -> list[int]:
        """The ids of a text. Words met before are remembered.

        allowed_special: special tokens that the text may hold, or "all" of them. The others are plain text, as nobody
        wants a user's text to end a document. Raises InputError for half a surrogate pair.
        """
        allowed = sorted(self.special if allowed_special == "all" else allowed_special, key=len, reverse=True)
        for token in allowed:
            if token not in self.special:
                known = ", ".join(self.special) or "none"
                raise InputError(f"{token!r} is not a special token here: there are {known}")
        parts = regex.split(f"({'|'.join(map(regex.escape, allowed))})", text) if allowed else [text]
        runs = self._runs.__getitem__
        ids = "".join([chr(self.ids[p]) if k % 2 else "".join(map(runs, runs_of(p))) for k, p in enumerate(parts)])
        return np.frombuffer(ids.encode("utf-32-le", "surrogatepass"), "<u4").tolist()

    def decode(self, ids: Iterable[int]) -> str:
        """The text of any ids. Bytes that are no UTF-8, as in half a character, become U+FFFD."""
        return b"".join([self._bytes[i] for i in self._check(ids)]).decode("utf-8", errors="replace")

    def streaming(self) -> ByteStream:
        return ByteStream(self)

    def parts(self) -> dict[int, bpe.Pair]:
        return {self.ids[left + right]: (left, right) for left, right in self.merges}

    def readable(self, token: str) -> str:
        """The text of a token, with bytes that are no whole character as `\\xea`."""
        return super().readable(self._bytes[self.ids[token]].decode("utf-8", errors="backslashreplace"))

    def _extended(self, tokens: list[str], names: Sequence[str]) -> GPT2Tokenizer:
        return GPT2Tokenizer(tokens, self.merges, (*self.special, *names))

    def _bytes_of(self, token: str) -> bytes:
        if token in self.special:
            return token.encode("utf-8")
        try:
            return bytes(BYTE_OF[character] for character in token)
        except KeyError as error:
            raise InputError(f"the token {token!r} is not byte-level: {error.args[0]!r} stands for no byte") from None

    def _encode_word(self, word: str) -> str:
        try:
            return "".join([chr(self.ids[symbol]) for symbol in bpe.merge(spell(word), self._ranks)])
        except KeyError as error:
            raise InputError(f"the vocabulary lacks {error.args[0]!r}, which {word!r} needs: it is not whole") from None


class ByteStream(Stream):
    """For tokens that are bytes: what is not yet a whole character waits for its last byte."""

    def __init__(self, tokenizer: GPT2Tokenizer):
        self._tokenizer = tokenizer
        self._decoder = codecs.getincrementaldecoder("utf-8")(errors="replace")

    def feed(self, i: int) -> str:
        return self._decoder.decode(self._tokenizer._bytes[self._tokenizer._check([i])[0]])

    def end(self) -> str:
        return self._decoder.decode(b"", final=True)

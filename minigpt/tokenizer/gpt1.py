"""GPT-1's tokenizer: words of lower-case text, merged by byte-pair encoding (GPT-1 §4.1)."""

from __future__ import annotations

import re
import warnings
from collections import Counter
from collections.abc import Iterable, Sequence
from functools import cached_property
from pathlib import Path

from minigpt.errors import InputError, check_folder
from minigpt.tokenizer import bpe, layouts, settings, text
from minigpt.tokenizer.base import Remembered, Tokenizer, check_size, check_text, pieces_of
from minigpt.tokenizer.files import HUGGING_FACE_FILES

UNKNOWN = "<unk>"
NEWLINE = "\n" + bpe.END_OF_WORD  # what the word "\n" starts from, and stays: no merge can touch a single symbol
OPENAI_FILES = ("encoder_bpe_40000.json", "vocab_40000.bpe")
PIPELINE_KEY = "text_pipeline"  # in tokenizer_config.json

_SPACES_AROUND_NEWLINE = re.compile(" ?\n ?")


class GPT1Tokenizer(Tokenizer):
    """Text is cleaned and split into words; each is made lower case and merged, and its symbols are looked up.

    It is not lossless: capitals, the spaces of the text and what the vocabulary cannot spell (`<unk>`) are lost.
    `decode` gives lower-case words with one space between them, also around punctuation; line ends come back.

    tokens: in the order of their ids, `<unk>` among them; merges: pairs of symbols, first learnt first; pipeline: the
    text pipeline that the vocabulary was made for (`minigpt.tokenizer.text`), kept with it so that the same text always
    gives the same ids. Where ftfy or spaCy is not installed, "rules" stands in for "ftfy+spacy", with a warning. Raises
    InputError for an unknown pipeline, for tokens without `<unk>`, and for one that stands there twice.
    """

    def __init__(self, tokens: Iterable[str], merges: Sequence[bpe.Pair], pipeline: str = "ftfy+spacy"):
        super().__init__(tokens)
        text.check_name(pipeline)
        if UNKNOWN not in self.ids:
            raise InputError(f"the vocabulary has no {UNKNOWN} token: GPT-1's tokenizer needs it for unknown symbols")
        self.unknown_id: int = self.ids[UNKNOWN]
        self.merges = list(merges)
        self.pipeline = pipeline
        self._ranks = {pair: rank for rank, pair in enumerate(self.merges)}
        self._decoded = [_with_its_space(token) for token in self.tokens]
        self._words = Remembered(self._encode_word)
        self._chunks = Remembered(self._encode_chunk)

    @classmethod
    def train(
        cls,
        texts: str | Iterable[str],
        vocab_size: int,
        *,
        min_frequency: int = 2,
        ties: str = "subword-nmt",
        pipeline: str = "auto",
        progress: bool = True,
    ) -> GPT1Tokenizer:
        """Learn a vocabulary of `vocab_size` tokens from a text, or from several.

        There will be fewer where pairs run out that are seen `min_frequency` times. The layout is that of the released
        vocabulary: `<unk>`, the characters of the text, the same as the end of a word, a symbol for each merge, the
        line end. ties: see `bpe.learn`. pipeline "auto" is "ftfy+spacy" where both are installed, else "rules".
        Raises InputError for texts without a word, and for a size that is too small for their characters.
        """
        check_size(vocab_size)
        if pipeline == "auto":
            pipeline = "ftfy+spacy" if text.has_paper_pipeline() else "rules"
        words = _count_words(texts, text.pipeline(pipeline))
        if not words:
            raise InputError("there are no words to learn a vocabulary from: the text is empty or blank")
        base = bpe.base_symbols(words)
        smallest = len(base) + 2  # with <unk> and the line end
        if vocab_size < smallest:
            need = f"the text has {len(base) // 2} characters, each takes two tokens (inside a word, and at its end)"
            raise InputError(f"a vocabulary of {vocab_size} is too small: {need}: choose {smallest} or more")
        merges = bpe.train(words, vocab_size - smallest, min_frequency=min_frequency, ties=ties, progress=progress)
        merged = [left + right for left, right in merges]
        tokens = dict.fromkeys([UNKNOWN, *base, *merged, NEWLINE])  # in this order, each once
        return cls(tokens, merges, pipeline)

    @classmethod
    def load(cls, folder: str | Path) -> GPT1Tokenizer:
        """Open a folder that `save`, OpenAI or Hugging Face wrote. The pipeline is the paper's, unless noted there.

        Raises InputError where a file is missing or damaged.
        """
        names = (HUGGING_FACE_FILES, OPENAI_FILES)
        found = layouts.read_bpe(Path(folder), layouts.WORDS, *names, special=[UNKNOWN])
        if found.prefix_space:
            raise InputError(f"{Path(folder)} sets add_prefix_space, which GPT-1's tokenizer does not do: remove it")
        pipeline = settings.read_config(folder).get(PIPELINE_KEY)
        return cls(found.tokens, found.merges, pipeline or "ftfy+spacy")

    def save(self, folder: str | Path, names: tuple[str, str] = HUGGING_FACE_FILES) -> None:
        """Write the vocabulary and the merges under these names (or `OPENAI_FILES`), and `tokenizer_config.json`."""
        check_folder(folder)
        config = {"tokenizer_class": "OpenAIGPTTokenizer", "unk_token": UNKNOWN, PIPELINE_KEY: self.pipeline}
        layouts.write_bpe(Path(folder), names, self.tokens, self.merges, config)

    @property
    def newline_id(self) -> int | None:
        """The id of a line end; None where the vocabulary has none."""
        return self.ids.get(NEWLINE)

    def encode(self, text: str) -> list[int]:
        """The ids of a text. Chunks and words met before are remembered, so a long text costs a look-up for each.

        Raises InputError for what is no str.
        """
        check_text(text)
        ids_of_chunk = self._chunks
        chunks = self._text.clean(text).split(" ")
        return [i for chunk in chunks for i in ids_of_chunk[chunk]]

    def unknown_in(self, text: str) -> list[str]:
        """The characters of a text that are encoded as `<unk>`, in lower case, each once, in the order of the text.

        Raises InputError for what is no str.
        """
        check_text(text)
        unknown = {}
        for chunk in dict.fromkeys(self._text.clean(text).split(" ")):
            if self.unknown_id not in self._chunks[chunk]:
                continue
            for word in self._text.split(chunk):
                for symbol in bpe.merge(bpe.split_word(word.lower()), self._ranks):
                    if symbol not in self.ids:
                        unknown[symbol.removesuffix(bpe.END_OF_WORD)] = True
        return list(unknown)

    def decode(self, ids: Iterable[int]) -> str:
        """Lower-case text with a space after each word. Raises InputError for an id that is not in the vocabulary."""
        decoded = self._decoded
        joined = "".join([decoded[i] for i in self._check(ids)])
        return _SPACES_AROUND_NEWLINE.sub("\n", joined).strip(" ")

    def explain(self, text: str) -> str:
        """How each word of a text is merged, step by step, each step with the number of its merge; then the ids."""
        lines = []
        for chunk in self._text.clean(text).split(" "):
            if chunk == "\n":
                continue
            for word in self._text.split(chunk):
                lines += self._explain_word(word)
        return "\n".join(lines)

    def _explain_word(self, word: str) -> list[str]:
        """The lines of `explain` for one word."""
        symbols = bpe.split_word(word.lower())
        lines = [word, f"    {' '.join(symbols)}"]
        for pair, after in bpe.merge_steps(symbols, self._ranks):
            number = self._ranks[pair] + 1
            lines.append(f"    {' '.join(after)}    merge {number}: {' + '.join(pair)}")
        ids = self._words[word.lower()]
        lines.append(f"    ids {' '.join(map(str, ids))}")
        return lines

    @cached_property
    def _text(self) -> text.Pipeline:  # made when first needed: importing spaCy takes a second, and decode needs none
        name = self.pipeline
        if name == "ftfy+spacy" and not text.has_paper_pipeline():
            warnings.warn(
                "this vocabulary was made with ftfy and spaCy, which are not installed: built-in rules stand in, and a "
                "few words may get other ids. For exactly the same: pip install ftfy spacy",
                stacklevel=2,
            )
            name = "rules"
        return text.pipeline(name)

    def _extended(self, tokens: list[str], names: Sequence[str]) -> GPT1Tokenizer:
        return GPT1Tokenizer(tokens, self.merges, self.pipeline)

    def _encode_chunk(self, chunk: str) -> list[int]:
        ids = []
        for word in self._text.split(chunk):
            ids += self._words[word.lower()]
        return ids

    def _encode_word(self, word: str) -> list[int]:
        symbols = bpe.merge(bpe.split_word(word), self._ranks)
        return [self.ids.get(symbol, self.unknown_id) for symbol in symbols]


def _count_words(texts: str | Iterable[str], pipeline: text.Pipeline) -> Counter[str]:
    """{word in lower case: how often it occurs in the texts}."""
    chunks = Counter()  # the same chunk always has the same words: it is split once
    for part in pieces_of(texts):
        chunks.update(pipeline.clean(part).split(" "))
    del chunks["\n"]  # a line end has its own symbol, whatever the text
    words = Counter()
    for chunk, n in chunks.items():
        for word in pipeline.split(chunk):
            words[word.lower()] += n
    return words


def _with_its_space(token: str) -> str:
    """A token as it reads in decoded text: the end of a word is a space."""
    if token.endswith(bpe.END_OF_WORD):
        return token.removesuffix(bpe.END_OF_WORD) + " "
    return token

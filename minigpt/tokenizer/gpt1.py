"""GPT-1's tokenizer: words of lower-case text, merged by byte-pair encoding (GPT-1 §4.1)."""

from __future__ import annotations

import re
import warnings
from collections import Counter
from collections.abc import Iterable, Sequence
from functools import cached_property
from pathlib import Path

from minigpt.errors import InputError
from minigpt.tokenizer import bpe, files, text
from minigpt.tokenizer.base import Remembered, Tokenizer
from minigpt.tokenizer.files import HUGGING_FACE_FILES

UNKNOWN = "<unk>"
NEWLINE = "\n" + bpe.END_OF_WORD  # what the word "\n" starts from, and stays: no merge can touch a single symbol
OPENAI_FILES = ("encoder_bpe_40000.json", "vocab_40000.bpe")
PIPELINE_KEY = "text_pipeline"


class GPT1Tokenizer(Tokenizer):
    """Text is cleaned and split into words; each is made lower case and merged, and its symbols are looked up.

    It is not lossless: capitals, the spaces of the text and what the vocabulary cannot spell (`<unk>`) are gone.
    `decode` gives lower-case words with one space between them, also around punctuation; line ends come back.

    tokens: in the order of their ids, `<unk>` among them; merges: pairs of symbols, first learnt first; pipeline: the
    text pipeline that the vocabulary was made for (`minigpt.tokenizer.text`), kept with it so that the same text always
    gives the same ids. Where ftfy or spaCy is not installed, "rules" stands in for "ftfy+spacy", with a warning.
    """

    def __init__(self, tokens: Iterable[str], merges: Sequence[bpe.Pair], pipeline: str = "ftfy+spacy"):
        super().__init__(tokens)
        text.check_name(pipeline)
        if UNKNOWN not in self.ids:
            raise InputError(f"the vocabulary has no {UNKNOWN} token: GPT-1's tokenizer needs it for unknown symbols")
        self.unknown_id = self.ids[UNKNOWN]
        self.merges = list(merges)
        self.pipeline = pipeline
        self._ranks = {pair: rank for rank, pair in enumerate(self.merges)}
        self._pieces = [_with_its_space(token) for token in self.tokens]
        self._words = Remembered(self._encode_word)
        self._chunks = Remembered(self._encode_chunk)

    @classmethod
    def train(
        cls, texts: str | Iterable[str], vocab_size: int, *, min_frequency: int = 2, ties: str = "subword-nmt",
        pipeline: str = "auto", progress: bool = True,
    ) -> GPT1Tokenizer:
        """Learn a vocabulary of `vocab_size` tokens from a text, or from several.

        There will be fewer where pairs run out that are seen `min_frequency` times. The layout is that of the released
        vocabulary: `<unk>`, the characters of the text, the same as the end of a word, a symbol for each merge, the
        line end. ties: see `bpe.learn`. pipeline "auto" is "ftfy+spacy" where both are installed, else "rules".
        """
        if pipeline == "auto":
            pipeline = "ftfy+spacy" if text.has_paper_pipeline() else "rules"
        clean, split = text.pipeline(pipeline)
        chunks, words = Counter(), Counter()
        for part in [texts] if isinstance(texts, str) else texts:
            chunks.update(clean(part).split(" "))
        del chunks["\n"]  # a line end has its own symbol, whatever the text
        for chunk, n in chunks.items():
            for word in split(chunk):
                words[word.lower()] += n
        if not words:
            raise InputError("there are no words to learn a vocabulary from: the text is empty or blank")
        base = bpe.base_symbols(words)
        smallest = len(base) + 2
        if vocab_size < smallest:
            need = f"the text has {len(base) // 2} characters, each takes two tokens (inside a word, and at its end)"
            raise InputError(f"a vocabulary of {vocab_size} is too small: {need}: choose {smallest} or more")
        merges = bpe.train(words, vocab_size - smallest, min_frequency=min_frequency, ties=ties, progress=progress)
        made = [left + right for left, right in merges]
        return cls(dict.fromkeys([UNKNOWN, *base, *made, NEWLINE]), merges, pipeline)

    @classmethod
    def load(cls, folder: str | Path) -> GPT1Tokenizer:
        """Open a folder that `save`, OpenAI or Hugging Face wrote. The pipeline is the paper's, unless noted there."""
        tokens, pairs, _ = files.read_bpe(Path(folder), HUGGING_FACE_FILES, OPENAI_FILES)
        return cls(tokens, pairs, files.read_config(folder).get(PIPELINE_KEY) or "ftfy+spacy")

    def save(self, folder: str | Path, names: tuple[str, str] = HUGGING_FACE_FILES) -> None:
        """Write the vocabulary and the merges under these names (or `OPENAI_FILES`), and `tokenizer_config.json`."""
        config = {"tokenizer_class": "OpenAIGPTTokenizer", "unk_token": UNKNOWN, PIPELINE_KEY: self.pipeline}
        files.write_bpe(Path(folder), names, self.tokens, self.merges, config)

    @property
    def newline_id(self) -> int | None:
        return self.ids.get(NEWLINE)

    def encode(self, text: str) -> list[int]:
        """The ids of a text. Chunks and words met before are remembered, so a long text costs a look-up for each."""
        chunks = self._chunks
        return [i for chunk in self._text.clean(text).split(" ") for i in chunks[chunk]]

    def decode(self, ids: Iterable[int]) -> str:
        pieces = self._pieces
        return re.sub(" ?\n ?", "\n", "".join([pieces[i] for i in self._check(ids)])).strip(" ")

    def explain(self, text: str) -> str:
        """How each word of a text is merged, step by step, each step with the number of its merge; then the ids."""
        lines = []
        for chunk in self._text.clean(text).split(" "):
            for word in self._text.split(chunk) if chunk != "\n" else ():
                symbols = bpe.split_word(word.lower())
                lines += [word, f"    {' '.join(symbols)}"]
                for pair, after in bpe.merge_steps(symbols, self._ranks):
                    lines.append(f"    {' '.join(after)}    merge {self._ranks[pair] + 1}: {' + '.join(pair)}")
                lines.append(f"    ids {' '.join(map(str, self._words[word.lower()]))}")
        return "\n".join(lines)

    def parts(self) -> dict[int, bpe.Pair]:
        return {self.ids[left + right]: (left, right) for left, right in self.merges}

    @cached_property
    def _text(self) -> text.Pipeline:  # made when first needed: importing spaCy takes a second, and decode needs none
        name = self.pipeline
        if name == "ftfy+spacy" and not text.has_paper_pipeline():
            warnings.warn(
                "this vocabulary was made with ftfy and spaCy, which are not installed: built-in rules stand in, and a "
                "few words may get other ids. For exactly the same: pip install ftfy spacy", stacklevel=2,
            )
            name = "rules"
        return text.pipeline(name)

    def _extended(self, tokens: list[str], names: Sequence[str]) -> GPT1Tokenizer:
        return GPT1Tokenizer(tokens, self.merges, self.pipeline)

    def _encode_chunk(self, chunk: str) -> list[int]:
        return [i for word in self._text.split(chunk) for i in self._words[word.lower()]]

    def _encode_word(self, word: str) -> list[int]:
        return [self.ids.get(symbol, self.unknown_id) for symbol in bpe.merge(bpe.split_word(word), self._ranks)]


def _with_its_space(token: str) -> str:
    """A token as it reads in decoded text: the end of a word is a space."""
    return token.removesuffix(bpe.END_OF_WORD) + " " if token.endswith(bpe.END_OF_WORD) else token

"""XLM's tokenizer (Lample and Conneau 2019): words of Moses, lower case without accents, GPT-1's byte-pair encoding.

Moses' rules for punctuation and words are those of the package `sacremoses` (extra `xlm`), as in transformers. They are
for English, which is what transformers takes where no language is given.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from minigpt.errors import InputError
from minigpt.files.disk import read_json, write_json, write_text
from minigpt.tokenizer import checksums, files, settings
from minigpt.tokenizer.bpe import END_OF_WORD
from minigpt.tokenizer.bpe_model import BPEModel
from minigpt.tokenizer.pipeline import Added, PieceTokenizer, Template

CLASS = "XLMTokenizer"
LANGUAGE = "en"
SPECIAL = tuple(f"<special{i}>" for i in range(10))
ROLES = {"start": "<s>", "delimiter": "</s>", "end": "</s>", "pad": "<pad>", "unknown": "<unk>", "mask": "<special1>"}
PLAIN = str.maketrans({  # wide marks and digits, as Moses replaces them
    "，": ",", "、": ",", "”": '"', "“": '"', "∶": ":", "：": ":", "？": "?", "《": '"', "》": '"', "）": ")",
    "！": "!", "（": "(", "；": ";", "」": '"', "「": '"', "～": "~", "’": "'", "…": "...", "━": "-", "〈": "<",
    "〉": ">", "【": "[", "】": "]", "％": "%", **{chr(0xFF10 + digit): str(digit) for digit in range(10)},
})  # fmt: skip
WIDE_STOP = re.compile(r"[。．]\s*")


def load(folder: Path) -> PieceTokenizer:
    """The tokenizer in `vocab.json` and `merges.txt`. Raises InputError for damaged files, and without sacremoses."""
    config = settings.read_config(folder)
    vocabulary, merges = (folder / name for name in files.HUGGING_FACE_FILES)
    tokens = files.tokens_from_ids(read_json(vocabulary), vocabulary)
    lines = files.read_lines(merges)
    without_counts = [" ".join(line.split()[:2]) for line in lines]
    pairs = files.pairs_of(without_counts, merges, "line", 1)
    ids = {token: i for i, token in enumerate(tokens)}
    if ROLES["unknown"] not in ids:
        raise InputError(f"{vocabulary} has no {ROLES['unknown']}: is it XLM's?")
    ranks = {pair: rank for rank, pair in enumerate(pairs)}
    model = BPEModel(tokens, ranks, unknown_id=ids[ROLES["unknown"]], suffix=END_OF_WORD)
    has_accents = config.get("do_lowercase_and_remove_accent") is False
    special = dict.fromkeys((*ROLES.values(), *SPECIAL))
    checksums.verify(vocabulary, tokens)
    checksums.verify(merges, lines)
    return PieceTokenizer(
        model,
        splitter=words_of_moses(has_accents),
        template=Template("<s>:0 $A:0 </s>:0", "<s>:0 $A:0 </s>:0 $B:1 </s>:1"),
        decoder=lambda numbers: "".join(tokens[i] for i in numbers).replace(END_OF_WORD, " ").strip(),
        added=[Added(token) for token in special if token in ids],
        roles={role: token for role, token in ROLES.items() if token in ids},
        own=settings.own_in(config, folder),
        write=lambda text, into: _save(text, into, lines, config),
    )


def words_of_moses(has_accents: bool) -> Callable[[str, bool], list[str]]:
    """A splitter. has_accents: upper case and accents stay. Raises InputError where sacremoses is not installed."""
    try:
        import sacremoses
    except ImportError as error:
        what = "XLM's tokenizer takes its words from the package sacremoses"
        raise InputError(f'{what}: install it with python -m pip install -e ".[xlm]"') from error
    normalizer = sacremoses.MosesPunctNormalizer(lang=LANGUAGE)
    tokenizer = sacremoses.MosesTokenizer(lang=LANGUAGE)

    def split(text: str, first: bool) -> list[str]:
        text = WIDE_STOP.sub(". ", text.translate(PLAIN))
        text = normalizer.normalize(text)
        text = "".join(character for character in text if not unicodedata.category(character).startswith("C"))
        words = tokenizer.tokenize(text, return_str=False, escape=False)
        if not has_accents:
            words = without_accents(" ".join(words)).split(" ")
        return [word for word in words if word]

    return split


def without_accents(text: str) -> str:
    """Lower case, and no marks: what NFD parts from its letter, Hangul's jamo stay."""
    parted = unicodedata.normalize("NFD", text.lower())
    kept = [character for character in parted if unicodedata.category(character) != "Mn"]
    return "".join(kept).lower()


def _save(text: PieceTokenizer, folder: Path, merges: list[str], config: Mapping[str, Any]) -> None:
    vocabulary, file = files.HUGGING_FACE_FILES
    write_json(folder / vocabulary, text.model.ids, indent=None)
    write_text(folder / file, "\n".join(merges) + "\n")
    lists = {vocabulary: text.model.tokens, file: merges}
    checksums.write_config(folder, {"tokenizer_class": CLASS} | settings.said_of(text, config), lists)

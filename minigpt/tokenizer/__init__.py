"""Tokenizers: text to token ids and back. `load(folder)` opens whichever kind was saved there.

GPT-1's, GPT-2's and that of characters are whole classes; every other tokenizer is a `PieceTokenizer`, a row of steps
in which a model cuts words into pieces, and whatever files a published folder has are told as the content of one
`tokenizer.json`, of which the steps are made (only a file of SentencePiece and XLM's folders have steps of their own).

    base                                 what every tokenizer offers
    char, gpt1, gpt2, layouts            the whole classes, and their files
      text, words, many_words              how GPT-1 and GPT-2 find words; merges of many words at once
    pipeline                             the row of steps
      steps_before, steps_after            each step is a function, its arguments are the settings in tokenizer.json
      characters, charsmap                 what the steps know of Unicode, and SentencePiece's map of characters
    wordpiece, bpe_model, unigram        the models, each beside its trainer
      bpe, bpe_reference                   merges, quick and plain
      lattice, unigram_training            all ways to cut a word; EM
      sentencepiece_bpe                    BPE with scores
      word_counts, trained                 what trainers count; a whole tokenizer learned from a text
    published                            any published folder: which of these readers it needs, and saving
      tokenizer_json, vocabularies         the steps of a tokenizer.json; other vocabularies told as one
      spiece_members, spiece, spiece_text  SentencePiece: its members, its file, its text
      xlm, of_gguf, llama2c                other formats
      files, settings, checksums           vocabularies and small files as they stand there
"""

from pathlib import Path
from typing import Any

from minigpt.errors import InputError
from minigpt.tokenizer import (
    bpe,
    files,
    gpt1,
    gpt2,
    layouts,
    published,
    settings,
    spiece_members,
    tokenizer_json,
    vocabularies,
    xlm,
)
from minigpt.tokenizer.base import Tokenizer
from minigpt.tokenizer.char import CharTokenizer
from minigpt.tokenizer.gpt1 import GPT1Tokenizer
from minigpt.tokenizer.gpt2 import GPT2Tokenizer
from minigpt.tokenizer.pipeline import PieceTokenizer
from minigpt.tokenizer.trained import TRAINERS

__all__ = [
    "KINDS", "TRAINERS", "CharTokenizer", "GPT1Tokenizer", "GPT2Tokenizer", "PieceTokenizer", "Tokenizer", "load",
]  # fmt: skip

KINDS = {"gpt1": GPT1Tokenizer, "gpt2": GPT2Tokenizer, "char": CharTokenizer}

_CLASSES = {  # names that `tokenizer_config.json` may give, without `Fast` at their end
    "OpenAIGPTTokenizer": GPT1Tokenizer,
    "GPT2Tokenizer": GPT2Tokenizer,
}
_BY_FILES = ("PreTrainedTokenizer", "TokenizersBackend")  # any kind, which the files decide
FILES = (  # what `save` may write
    *files.HUGGING_FACE_FILES, files.TOKENIZER_JSON, settings.CONFIG, files.VOCABULARY, *spiece_members.NAMES
)  # fmt: skip
_PAIRS = (files.HUGGING_FACE_FILES, gpt1.OPENAI_FILES, gpt2.OPENAI_FILES)


def load(folder: str | Path) -> Tokenizer:
    """Open the tokenizer in a folder: by the class that its `tokenizer_config.json` names, else by the files in it.

    Raises InputError where the folder holds no tokenizer, one of a class that is not known here, or a damaged one.
    """
    if not isinstance(folder, str | Path):
        raise InputError(f"a tokenizer is opened from a folder, given as a str or a Path, not from {folder!r}")
    folder = Path(folder)
    if not folder.is_dir():
        raise InputError(f"{folder} is not a folder: give the one that a tokenizer or a model was saved in")
    kind = _kind(folder)
    return published.open_folder(folder) if kind is None else kind.load(folder)


def _kind(folder: Path) -> Any:
    """What loads the tokenizer in a folder, a class or a module; None for a published one, told as its steps.

    Raises InputError for a class that is not known here, and where there is none.
    """
    config = settings.read_config(folder)
    if config.get("split_special_tokens"):
        what = "a special token in a text would be cut as any word is, which is not done here"
        raise InputError(f"{folder / settings.CONFIG} sets split_special_tokens: {what}")
    name = settings.class_of(config)
    known = {xlm.CLASS, *_CLASSES, *_BY_FILES, *vocabularies.members(), *spiece_members.by_class()}
    if name is not None and (not isinstance(name, str) or name not in known):
        given = config["tokenizer_class"]
        expected = f"known here are {', '.join(sorted(known))}"
        raise InputError(f"{folder / settings.CONFIG} names the tokenizer class {given!r}, {expected}")
    single = folder / files.TOKENIZER_JSON
    layout = None
    if single.exists():
        saved = files.read_parts(single)
        layout = layouts.layout_of(saved)
        if layout is None or (files.model_type(saved) in tokenizer_json.MODELS and not layouts.fits(saved, layout)):
            return None
    if name == xlm.CLASS:
        return xlm
    if name in _CLASSES:
        return _CLASSES[name]
    member = vocabularies.members().get(name or "")
    if not single.exists() and member is not None and files.TOKENIZER_JSON in member.files:
        needed = f"{config['tokenizer_class']} is opened from a {files.TOKENIZER_JSON} alone"
        raise InputError(f"{folder} has none: {needed}: save it again with transformers")
    if not single.exists() and vocabularies.member_in(folder, config) is not None:
        return None
    vocabulary, merges = files.find(folder, *_PAIRS)
    if vocabulary.exists() or merges.exists():
        # GPT-1 and GPT-2 use the same names. GPT-1's words end in `</w>`; in GPT-2's no letter follows `</`.
        return GPT1Tokenizer if bpe.END_OF_WORD in files.read_text(vocabulary) else GPT2Tokenizer
    if layout is not None:
        return KINDS[layout.kind]
    if (folder / files.VOCABULARY).exists() or spiece_members.find(folder) is not None:
        return None
    names = [*(" and ".join(names) for names in _PAIRS), files.VOCABULARY, *spiece_members.NAMES]
    raise InputError(f"{folder} holds no tokenizer: expected {', '.join(names)}, or {files.TOKENIZER_JSON}")

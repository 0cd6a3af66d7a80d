"""Tokenizers: text to token ids and back. `load(folder)` opens whichever kind was saved there."""

from pathlib import Path

from minigpt.errors import InputError
from minigpt.tokenizer import (
    all_in_one,
    bpe,
    files,
    gpt1,
    gpt2,
    published,
    settings,
    spiece_members,
    tokenizer_json,
    vocab_and_merges,
)
from minigpt.tokenizer.base import Tokenizer
from minigpt.tokenizer.char import CharTokenizer
from minigpt.tokenizer.gpt1 import GPT1Tokenizer
from minigpt.tokenizer.gpt2 import GPT2Tokenizer
from minigpt.tokenizer.pipeline import PieceTokenizer
from minigpt.tokenizer.trained import TRAINERS

__all__ = [
    "KINDS",
    "TRAINERS",
    "CharTokenizer",
    "GPT1Tokenizer",
    "GPT2Tokenizer",
    "PieceTokenizer",
    "Tokenizer",
    "load",
]

KINDS = {"gpt1": GPT1Tokenizer, "gpt2": GPT2Tokenizer, "char": CharTokenizer}

_CLASSES = {  # names that `tokenizer_config.json` may give, without `Fast` at their end
    "OpenAIGPTTokenizer": GPT1Tokenizer,
    "GPT2Tokenizer": GPT2Tokenizer,
}
_BY_FILES = ("PreTrainedTokenizer", "TokenizersBackend")  # any kind, which the files decide
_BY_ONE_FILE = (  # their `tokenizer.json` tells what they do; their other files do not
    "BarthezTokenizer", "BigBirdTokenizer", "BlenderbotTokenizer", "BloomTokenizer", "CLIPTokenizer",
    "CamembertTokenizer", "CodeGenTokenizer", "CodeLlamaTokenizer", "CohereTokenizer", "FunnelTokenizer",
    "GPTNeoXTokenizer", "GemmaTokenizer", "HerbertTokenizer", "MBart50Tokenizer", "MPNetTokenizer", "NllbTokenizer",
    "PegasusTokenizer", "ReformerTokenizer", "RemBertTokenizer", "SplinterTokenizer", "WhisperTokenizer",
)  # fmt: skip

FILES = (  # what `save` may write
    *files.HUGGING_FACE_FILES, files.ALL_IN_ONE, settings.CONFIG, published.VOCABULARY, *spiece_members.NAMES
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


def _kind(folder: Path) -> type[Tokenizer] | None:
    """The class of the tokenizer in a folder; None for a published one, which is told as its steps.

    Raises InputError for a class that is not known here, and where there is none.
    """
    config = settings.read_config(folder)
    name = published.class_of(config)
    single = folder / files.ALL_IN_ONE
    if isinstance(name, str) and name in _CLASSES:
        return None if _is_told_as_steps(single) else _CLASSES[name]
    of_published = {*published.WORDPIECE_CLASSES, *vocab_and_merges.members(), *spiece_members.class_names()}
    of_published |= {*_BY_FILES, *_BY_ONE_FILE}
    if name is not None and (not isinstance(name, str) or name not in of_published):
        known = ", ".join(sorted({*_CLASSES, *of_published}))
        given = config["tokenizer_class"]
        raise InputError(f"{folder / settings.CONFIG} names the tokenizer class {given!r}, known here are {known}")
    if name in _BY_ONE_FILE and not single.exists():
        what = f"{config['tokenizer_class']} is opened from a {files.ALL_IN_ONE} alone: save it again with transformers"
        raise InputError(f"{folder} has none: {what}")
    if not single.exists() and vocab_and_merges.is_here(folder, published.class_in(folder, config)):
        return None
    return _kind_by_files(folder)


def _is_told_as_steps(single: Path) -> bool:
    """Is it a `tokenizer.json` that only `tokenizer_json.py` reads?"""
    return (
        single.exists() and tokenizer_json.model_type(single) in tokenizer_json.MODELS and not all_in_one.fits(single)
    )


def _kind_by_files(folder: Path) -> type[Tokenizer] | None:
    """The same where only the files tell it."""
    vocabulary, merges = files.find(folder, *_PAIRS)
    single = folder / files.ALL_IN_ONE
    if _is_told_as_steps(single):
        return None
    if vocabulary.exists() or merges.exists():
        # GPT-1 and GPT-2 use the same names. GPT-1's words end in `</w>`; in GPT-2's no letter follows `</`.
        return GPT1Tokenizer if bpe.END_OF_WORD in files.read_text(vocabulary) else GPT2Tokenizer
    if single.exists():
        return KINDS[all_in_one.layout_of(single).kind]
    if published.is_here(folder):
        return None
    names = [*(" and ".join(names) for names in _PAIRS), published.VOCABULARY, *spiece_members.NAMES]
    raise InputError(f"{folder} holds no tokenizer: expected {', '.join(names)}, or {files.ALL_IN_ONE}")

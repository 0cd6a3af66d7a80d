"""Tokenizers: text to token ids and back. `load(folder)` opens whichever kind was saved there."""

from pathlib import Path

from minigpt.errors import InputError
from minigpt.tokenizer import bpe, files, gpt1, gpt2
from minigpt.tokenizer.base import Tokenizer
from minigpt.tokenizer.char import CharTokenizer
from minigpt.tokenizer.gpt1 import GPT1Tokenizer
from minigpt.tokenizer.gpt2 import GPT2Tokenizer

__all__ = ["KINDS", "CharTokenizer", "GPT1Tokenizer", "GPT2Tokenizer", "Tokenizer", "load"]

KINDS = {"gpt1": GPT1Tokenizer, "gpt2": GPT2Tokenizer, "char": CharTokenizer}

_CLASSES = {"OpenAIGPTTokenizer": GPT1Tokenizer, "GPT2Tokenizer": GPT2Tokenizer}
_CLASSES |= {f"{name}Fast": kind for name, kind in _CLASSES.items()}
_CLASSES |= {"PreTrainedTokenizerFast": None}  # any kind: the files tell
_CLASSES |= {"TokenizersBackend": None}  # what transformers 5 calls it when it saves one

FILES = (*files.HUGGING_FACE_FILES, files.ALL_IN_ONE, files.CONFIG)  # what `save` may write
_PAIRS = (files.HUGGING_FACE_FILES, gpt1.OPENAI_FILES, gpt2.OPENAI_FILES)


def load(folder: str | Path) -> Tokenizer:
    """Open the tokenizer in a folder: by the class that its `tokenizer_config.json` names, else by the files in it."""
    folder = Path(folder)
    if not folder.is_dir():
        raise InputError(f"{folder} is not a folder: give the one that a tokenizer or a model was saved in")
    name = files.read_config(folder).get("tokenizer_class")
    if name is not None and name not in list(_CLASSES):
        known = ", ".join(_CLASSES)
        raise InputError(f"{folder / files.CONFIG} names the tokenizer class {name!r}, known here are {known}")
    return (_CLASSES.get(name) or _class_by_files(folder)).load(folder)


def _class_by_files(folder: Path) -> type[Tokenizer]:
    """GPT-1 and GPT-2 use the same names. But only words that end have `</w>`: in GPT-2's no letter follows `</`."""
    vocabulary, merges = files.find(folder, *_PAIRS)
    single = folder / files.ALL_IN_ONE
    if vocabulary.exists() or merges.exists():
        return GPT1Tokenizer if bpe.END_OF_WORD in files.read_text(vocabulary) else GPT2Tokenizer
    if single.exists():
        saved = files.read_json(single)
        byte_level = isinstance(saved.get("pre_tokenizer"), dict) and saved["pre_tokenizer"].get("type") == "ByteLevel"
        words = isinstance(saved.get("model"), dict) and saved["model"].get("end_of_word_suffix") == bpe.END_OF_WORD
        return GPT2Tokenizer if byte_level else GPT1Tokenizer if words else CharTokenizer
    pairs = ", ".join(" and ".join(names) for names in _PAIRS)
    raise InputError(f"{folder} holds no tokenizer: expected {pairs}, or {files.ALL_IN_ONE}")

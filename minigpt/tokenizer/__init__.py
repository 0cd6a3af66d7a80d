"""Tokenizers: text to token ids and back. `load(folder)` opens whichever kind was saved there."""

from pathlib import Path

from minigpt.errors import InputError
from minigpt.tokenizer import all_in_one, bpe, files, gpt1, gpt2, settings
from minigpt.tokenizer.base import Tokenizer
from minigpt.tokenizer.char import CharTokenizer
from minigpt.tokenizer.gpt1 import GPT1Tokenizer
from minigpt.tokenizer.gpt2 import GPT2Tokenizer

__all__ = ["KINDS", "CharTokenizer", "GPT1Tokenizer", "GPT2Tokenizer", "Tokenizer", "load"]

KINDS = {"gpt1": GPT1Tokenizer, "gpt2": GPT2Tokenizer, "char": CharTokenizer}

_CLASSES = {  # names that `tokenizer_config.json` may give; None: any kind, which the files decide
    "OpenAIGPTTokenizer": GPT1Tokenizer,
    "GPT2Tokenizer": GPT2Tokenizer,
    "OpenAIGPTTokenizerFast": GPT1Tokenizer,
    "GPT2TokenizerFast": GPT2Tokenizer,
    "PreTrainedTokenizerFast": None,
    "TokenizersBackend": None,  # the name that transformers 5 writes for PreTrainedTokenizerFast
}

FILES = (*files.HUGGING_FACE_FILES, files.ALL_IN_ONE, settings.CONFIG)  # what `save` may write
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
    name = settings.read_config(folder).get("tokenizer_class")
    if name is None:
        kind = None
    elif isinstance(name, str) and name in _CLASSES:
        kind = _CLASSES[name]
    else:
        known = ", ".join(_CLASSES)
        raise InputError(f"{folder / settings.CONFIG} names the tokenizer class {name!r}, known here are {known}")
    if kind is None:
        kind = _class_by_files(folder)
    return kind.load(folder)


def _class_by_files(folder: Path) -> type[Tokenizer]:
    """The class of the tokenizer in a folder of which only the files tell. Raises InputError where there are none."""
    vocabulary, merges = files.find(folder, *_PAIRS)
    single = folder / files.ALL_IN_ONE
    if vocabulary.exists() or merges.exists():
        # GPT-1 and GPT-2 use the same names. GPT-1's words end in `</w>`; in GPT-2's no letter follows `</`.
        return GPT1Tokenizer if bpe.END_OF_WORD in files.read_text(vocabulary) else GPT2Tokenizer
    if single.exists():
        return KINDS[all_in_one.layout_of(single).kind]
    pairs = ", ".join(" and ".join(names) for names in _PAIRS)
    raise InputError(f"{folder} holds no tokenizer: expected {pairs}, or {files.ALL_IN_ONE}")

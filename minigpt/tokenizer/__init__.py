"""Tokenizers: text to token ids and back. `load(folder)` opens whichever kind was saved there."""

from pathlib import Path

from minigpt.errors import InputError
from minigpt.tokenizer import char, files, gpt1
from minigpt.tokenizer.base import Tokenizer
from minigpt.tokenizer.char import CharTokenizer
from minigpt.tokenizer.gpt1 import GPT1Tokenizer

__all__ = ["CharTokenizer", "GPT1Tokenizer", "Tokenizer", "load"]

_CLASSES = {
    "OpenAIGPTTokenizer": GPT1Tokenizer,
    "OpenAIGPTTokenizerFast": GPT1Tokenizer,
    "PreTrainedTokenizerFast": CharTokenizer,
    "TokenizersBackend": CharTokenizer,  # what transformers 5 calls it when it saves one
}


def load(folder: str | Path) -> Tokenizer:
    """Open the tokenizer in a folder: by the class that its `tokenizer_config.json` names, else by the files in it."""
    folder = Path(folder)
    if not folder.is_dir():
        raise InputError(f"{folder} is not a folder: give the one that a tokenizer or a model was saved in")
    config = folder / files.CONFIG
    name = files.read_json(config).get("tokenizer_class") if config.exists() else None
    if name is not None and name not in list(_CLASSES):
        raise InputError(f"{config} names the tokenizer class {name!r}, known here are {', '.join(_CLASSES)}")
    if name is not None:
        return _CLASSES[name].load(folder)
    if any(path.exists() for path in files.find(folder, gpt1.HUGGING_FACE_FILES, gpt1.OPENAI_FILES)):
        return GPT1Tokenizer.load(folder)
    if (folder / char.FILE).exists():
        return CharTokenizer.load(folder)
    raise InputError(
        f"{folder} holds no tokenizer: expected {' and '.join(gpt1.HUGGING_FACE_FILES)}, "
        f"{' and '.join(gpt1.OPENAI_FILES)}, or {char.FILE}"
    )

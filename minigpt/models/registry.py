"""The models by name, and opening one together with its tokenizer."""

from pathlib import Path

import numpy as np

from minigpt import tokenizer
from minigpt.errors import InputError
from minigpt.files import checkpoint, hub
from minigpt.models import gpt1, gpt2, lstm
from minigpt.models.language_model import LanguageModel

MODELS = {"gpt1": (gpt1.GPT1, gpt1.SIZES), "gpt2": (gpt2.GPT2, gpt2.SIZES), "lstm": (lstm.LSTM, lstm.SIZES)}
PUBLISHED = {"gpt1": "paper", "gpt2": "small", "lstm": "paper"}  # the size that a model is known by


def model_class(name: str) -> type[LanguageModel]:
    """The class of "gpt1", "gpt2" or "lstm". Raises InputError for a name that is none of them."""
    if name not in MODELS:
        raise InputError(f"unknown model {name!r}: choose {' or '.join(MODELS)}")
    return MODELS[name][0]


def name_of(kind: type[LanguageModel]) -> str:
    """The name of a class of models: "gpt1", "gpt2" or "lstm"."""
    return next(name for name, (known, _) in MODELS.items() if known is kind)


def size(name: str, size_name: str) -> dict:
    """The configuration values of a size, such as "nano" or "paper"."""
    sizes = MODELS[name][1]
    if size_name not in sizes:
        raise InputError(f"unknown size {size_name!r} of {name}: choose {', '.join(sizes)}")
    return dict(sizes[size_name])


def class_in(folder: str | Path) -> type[LanguageModel]:
    """The class of the model in a directory, by the model_type of its config.json."""
    folder = hub.find(folder)
    model_type = checkpoint.load_config(folder)["model_type"]
    for model, _ in MODELS.values():
        if model.Config.model_type == model_type:
            return model
    raise InputError(f"{folder} holds a model of type {model_type!r}, which is none of ours: {', '.join(MODELS)}")


def open_model(folder: str | Path, dtype=np.float32, **changes) -> LanguageModel:
    """Open a model directory of any of the models, or a downloaded model by its name.

    changes: configuration values to replace. Raises InputError for what is neither.
    """
    return class_in(folder).load(hub.find(folder), dtype=dtype, **changes)


def open_both(folder: str | Path, dtype=np.float32, **changes) -> tuple[LanguageModel, "tokenizer.Tokenizer"]:
    """Open a model and its tokenizer from one directory; a vocabulary that does not fit the weights is refused."""
    model, text = open_model(folder, dtype, **changes), tokenizer.load(hub.find(folder))
    if text.vocab_size != model.config.vocab_size:
        sizes = f"the tokenizer has {text.vocab_size} tokens and the weights {model.config.vocab_size} rows"
        raise InputError(f"{folder}: {sizes}: they do not belong together")
    return model, text

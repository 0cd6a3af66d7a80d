"""The models by name, and opening one together with its tokenizer. A new model is one more card here."""

import warnings
from pathlib import Path

import numpy as np

from minigpt import tokenizer
from minigpt.errors import InputError
from minigpt.files import checkpoint, hub
from minigpt.models import gpt1, gpt2, lstm
from minigpt.models.card import Card
from minigpt.models.family import (
    albert,
    bart,
    bert,
    deberta,
    distilbert,
    electra,
    elmo,
    gpt_neox,
    llama,
    mass,
    mistral,
    roberta,
    spanbert,
    t5,
    xlm,
    xlnet,
)
from minigpt.models.language_model import LanguageModel
from minigpt.models.saved_model import is_padded

CARDS = (
    gpt1.CARD,
    gpt2.CARD,
    lstm.CARD,
    elmo.CARD,
    bert.CARD,
    roberta.CARD,
    spanbert.CARD,
    albert.CARD,
    distilbert.CARD,
    electra.CARD,
    deberta.CARD,
    xlm.CARD,
    xlnet.CARD,
    mass.CARD,
    bart.CARD,
    t5.CARD,
    gpt_neox.CARD,
    llama.CARD,
    mistral.CARD,
)

NOT_BUILT = {  # published relatives of these models -> what they have otherwise
    "mbart": "a BART that normalises before each part, with scaled embeddings",
    "marian": "a BART with sines for positions, scaled embeddings and another head",
    "pegasus": "a BART that normalises before each part, with sines for positions",
    "blenderbot": "a BART that normalises before each part",
    "longformer": "a RoBERTa whose tokens see their neighbours",
    "big_bird": "a BERT whose tokens see their neighbours",
    "mobilebert": "a BERT with a narrow path through each block",
    "funnel": "an ELECTRA that grows shorter from block to block",
    "transfo-xl": "a language model with a memory of earlier texts",
    "ctrl": "a GPT-2 with sines for positions and control codes",
}


def names() -> list[str]:
    """The names of all models."""
    return [card.name for card in CARDS]


def card(name: str) -> Card:
    """The card of a model by its name. Raises InputError for a name that is none."""
    for one in CARDS:
        if one.name == name:
            return one
    raise InputError(f"unknown model {name!r}: choose {' or '.join(names())}")


def size(name: str, size_name: str) -> dict:
    """The configuration values of a size of a model, such as "nano" or "paper". Raises InputError for another name."""
    sizes = card(name).sizes
    if size_name not in sizes:
        raise InputError(f"unknown size {size_name!r} of {name}: choose {', '.join(sizes)}")
    return dict(sizes[size_name])


def common_sizes() -> list[str]:
    """The names of the sizes that every model has: those of this library, which no paper has."""
    return [name for name in CARDS[0].sizes if all(name in one.sizes for one in CARDS)]


def size_names() -> str:
    """The sizes of all models, in words: "nano, mini; gpt1, lstm: paper; ..."; first those that every model has."""
    common = common_sizes()
    models_with: dict[str, list[str]] = {}
    for one in CARDS:
        own = ", ".join(name for name in one.sizes if name not in common)
        if own:
            models_with.setdefault(own, []).append(one.name)
    parts = [f"{', '.join(models)}: {own}" for own, models in models_with.items()]
    return "; ".join([", ".join(common), *parts])


def aim_names() -> str:
    """The objectives that can be chosen, in words: "bart: masking, deletion; bert: whole-words"."""
    parts = []
    for one in CARDS:
        if one.other_aims:
            parts.append(f"{one.name}: {', '.join(aim.name for aim in one.other_aims)}")
    return "; ".join(parts)


def card_in(folder: str | Path) -> Card:
    """The card of the model in a directory, or of a downloaded model by its name.

    Raises InputError for a folder without a model, and for a model of a type that is not known, with those that are.
    """
    folder = hub.find(folder)
    for one in CARDS:
        if one.model.is_in(folder):
            return one
    model_type = checkpoint.load_config(folder)["model_type"]
    known = ", ".join(f"{kind} ({one.name})" for one in CARDS for kind in one.model.Config.types())
    told = f", {NOT_BUILT[model_type]}, which is not built here" if model_type in NOT_BUILT else ""
    raise InputError(f"{folder} holds a model of type {model_type!r}{told}: the types that can be opened are {known}")


def open_model(folder: str | Path, dtype=np.float32, **changes) -> LanguageModel:
    """Open a model directory of any of the models, or a downloaded model by its name.

    changes: configuration values to replace. Raises InputError for what is neither.
    """
    return card_in(folder).model.load(hub.find(folder), dtype=dtype, **changes)


def open_both(folder: str | Path, dtype=np.float32, **changes) -> tuple[LanguageModel, tokenizer.Tokenizer]:
    """Open a model and its tokenizer from one directory. Raises InputError where they do not belong together.

    Rows behind the vocabulary that another program added for the sake of speed (50,304 for GPT-2's 50,257 tokens) are
    left out, with a warning: no text ever used them.
    """
    kind = card_in(folder).model
    place = hub.find(folder)
    config = kind.config_in(place)
    text = tokenizer.load(place)
    of_another_program = checkpoint.saved_config(place) is None
    if of_another_program and is_padded(config.vocab_size, text.vocab_size):
        unused = f"the last {config.vocab_size - text.vocab_size} of {config.vocab_size} rows of the token embedding"
        warnings.warn(f"{folder}: {unused} belong to no token of its tokenizer: they are left out", stacklevel=2)
        changes = {"vocab_size": text.vocab_size} | changes
    model = kind.load(place, dtype=dtype, **changes)
    if text.vocab_size != model.config.vocab_size:
        sizes = f"the tokenizer has {text.vocab_size} tokens and the weights {model.config.vocab_size} rows"
        raise InputError(f"{folder}: {sizes}: they do not belong together")
    return model, text

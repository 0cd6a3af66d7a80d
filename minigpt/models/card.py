"""A card tells generic code what it must know of a model, so that no generic file names one."""

from typing import Any, NamedTuple

from minigpt.models.language_model import LanguageModel
from minigpt.nn.optim import Optimizer
from minigpt.tokenizer import Tokenizer


class Card(NamedTuple):
    """One model of the registry.

    name: on the command line. sizes: configuration values by the name of a size. usual_size: the size that the model
    is known by. tokenizer: its own kind, for a vocabulary that is learned from a text. optimizer: its own update rule.
    """

    name: str
    model: type[LanguageModel]
    sizes: dict[str, dict[str, Any]]
    usual_size: str
    tokenizer: type[Tokenizer]
    optimizer: type[Optimizer]

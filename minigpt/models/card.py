"""A card tells generic code what it must know of a model, so that no generic file names one."""

from collections.abc import Callable
from typing import Any, NamedTuple

from minigpt.data.objectives import Objective, causal
from minigpt.models.language_model import LanguageModel
from minigpt.nn.optim import Optimizer
from minigpt.tokenizer import Tokenizer


def next_token(text: Tokenizer) -> Objective:
    """The objective of a language model that reads from left to right, whatever its tokenizer."""
    return causal


class Card(NamedTuple):
    """One model of the registry.

    name: on the command line. sizes: configuration values by the name of a size. usual_size: the size that the model
    is known by. tokenizer: its own kind, for a vocabulary that is learned from a text. optimizer: its own update rule.
    objective: a function of the tokenizer that gives what the model learns to predict. special_tokens: what its
    vocabulary needs beside, such as a token that covers others.
    """

    name: str
    model: type[LanguageModel]
    sizes: dict[str, dict[str, Any]]
    usual_size: str
    tokenizer: type[Tokenizer]
    optimizer: type[Optimizer]
    objective: Callable[[Tokenizer], Objective] = next_token
    special_tokens: tuple[str, ...] = ()

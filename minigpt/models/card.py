"""A card tells generic code what it must know of a model, so that no generic file names one."""

import math
from collections.abc import Callable
from typing import Any, NamedTuple

from minigpt.data.objectives import Objective, causal
from minigpt.errors import InputError
from minigpt.models.language_model import LanguageModel
from minigpt.nn.optim import Optimizer
from minigpt.tokenizer import Tokenizer


def next_token(text: Tokenizer) -> Objective:
    """The objective of a language model that reads from left to right, whatever its tokenizer."""
    return causal


def ids_of(**names: str) -> Callable[[Tokenizer], dict[str, int]]:
    """For `token_settings`: the ids of the tokens of these names, by the names of configuration values."""

    def settings(text: Tokenizer) -> dict[str, int]:
        return {value: text.ids[name] for value, name in names.items()}

    return settings


def as_wide_as_the_paper(width: int) -> float:
    """The standard deviation of new weights of a model of this width: N(0, 0.02) at width 768, more below.

    A product with a (C,C) matrix stretches its input by std sqrt(C). With 0.02 sqrt(768 / C) that is 0.55 at every
    width; with 0.02 it is 0.23 at width 128, and a post-LN block passes on little but its input. The limit of 0.05 is
    the value for width 128: narrower models were not measured.
    """
    std = 0.02 * math.sqrt(768 / max(width, 1))
    return min(max(std, 0.02), 0.05)


class Aim(NamedTuple):
    """Something that a model can learn to predict, beside what its card says first (`minigpt train --objective`).

    name: on the command line. objective, mask_rate: as those of a card.
    """

    name: str
    objective: Callable[..., Objective]
    mask_rate: float | None = None


class Card(NamedTuple):
    """One model of the registry.

    name: on the command line. sizes: configuration values by the name of a size. usual_size: the size that the model
    is known by. tokenizer: its own kind, for a vocabulary that is learned from a text. optimizer: its own update rule.
    objective: a function of the tokenizer that gives what the model learns to predict. special_tokens: what its
    vocabulary needs beside, such as a token that covers others. init_std: the standard deviation of new weights as a
    function of the width; None: that of the configuration at every width. mask_rate: which part of the tokens the
    objective covers where nothing else is said, its second argument; None: it covers none. token_settings: values
    of a configuration that are tokens, such as the one that a decoder starts with, as a function of the tokenizer.
    loss_in_nats: is the loss nats per token, so that it can be compared with guessing and with a table of frequencies?
    other_aims: what it can learn to predict instead. differs: how its largest sizes differ from the published model, in
    words, with that model's number of parameters where one is known; "" where they are the same.
    """

    name: str
    model: type[LanguageModel]
    sizes: dict[str, dict[str, Any]]
    usual_size: str
    tokenizer: type[Tokenizer]
    optimizer: type[Optimizer]
    objective: Callable[..., Objective] = next_token
    special_tokens: tuple[str, ...] = ()
    init_std: Callable[[int], float] | None = None
    token_settings: Callable[[Tokenizer], dict[str, int]] | None = None
    loss_in_nats: bool = True
    mask_rate: float | None = None
    other_aims: tuple[Aim, ...] = ()
    differs: str = ""

    def aim(self, name: str | None = None) -> Aim:
        """What the model learns to predict by this name; None: what the card says first. Raises InputError."""
        if name is None:
            return Aim(self.name, self.objective, self.mask_rate)
        for one in self.other_aims:
            if one.name == name:
                return one
        if not self.other_aims:
            raise InputError(f"--objective {name}: {self.name} has a single objective: leave --objective out")
        known = " or ".join(one.name for one in self.other_aims)
        raise InputError(f"--objective {name}: {self.name} has none of that name: choose {known}, or leave it out")

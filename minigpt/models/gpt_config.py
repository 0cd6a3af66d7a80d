"""What published relatives of GPT change in its configuration: the function in the MLP, the scale, the head."""

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from minigpt.models.config import Config
from minigpt.models.config_file import ACTIVATIONS, check_activation
from minigpt.nn import Embedding, Module


@dataclass(frozen=True, kw_only=True)
class GPTConfig(Config):
    """What both models have. A subclass says what the function in its MLP is called.

    tie_word_embeddings: is the head the token embedding? activation_key: the name of the value that says which function
    is in the MLP. activations: {its value: the operation}. variants: the other values that change what is computed.
    """

    activation_key: ClassVar[str]
    activations: ClassVar[dict[str, str]] = ACTIVATIONS
    variants: ClassVar[tuple[str, ...]] = ("tie_word_embeddings",)

    tie_word_embeddings: bool = True

    def __post_init__(self):
        super().__post_init__()
        check_activation(self.activation_key, getattr(self, self.activation_key), self.activations)

    @property
    def activation(self) -> str:
        """The operation in an MLP."""
        return self.activations[getattr(self, self.activation_key)]

    def changed(self) -> str | None:
        """The first value, with its name, in which it computes something else than the released models; None: none."""
        changed = [name for name in self.variants if getattr(self, name) != getattr(type(self), name)]
        if self.activation != "gelu":
            changed.append(self.activation_key)
        return f"{changed[0]} {getattr(self, changed[0])!r}" if changed else None

    def own_head(self, rng: np.random.Generator | None, dtype) -> Embedding | None:
        """A table (V,C) for the output, as the token embedding is; None where the head is the token embedding."""
        if self.tie_word_embeddings:
            return None
        return Embedding(self.vocab_size, self.n_embd, rng, self.initializer_range, dtype)


@dataclass(frozen=True, kw_only=True)
class GPT1Variants(GPTConfig):
    """What GPT-1's files may say beside sizes and rates. Its "gelu" has the tanh form, as in the released model."""

    activation_key = "afn"
    activations: ClassVar[dict[str, str]] = {"gelu": "gelu", "relu": "relu", "silu": "silu", "swish": "silu"}


@dataclass(frozen=True, kw_only=True)
class GPT2Variants(GPTConfig):
    """What GPT-2's files may say beside sizes and rates. Its "gelu_new" has the tanh form, its "gelu" the exact one.

    n_inner: the width inside an MLP; None: four times n_embd. scale_attn_weights: are scores divided by sqrt(D)?
    scale_attn_by_inverse_layer_idx: and by the number of the block, counted from 1 (as in Mistral's GPT-2 of 2021)?
    """

    activation_key = "activation_function"
    variants: ClassVar[tuple[str, ...]] = (
        "n_inner", "scale_attn_weights", "scale_attn_by_inverse_layer_idx", "tie_word_embeddings",
    )  # fmt: skip

    n_inner: int | None = None
    scale_attn_weights: bool = True
    scale_attn_by_inverse_layer_idx: bool = False

    def __post_init__(self):
        super().__post_init__()
        if self.n_inner is not None:
            self._check_size("n_inner")
        if self.n_inner == 4 * self.n_embd:
            object.__setattr__(self, "n_inner", None)  # so that equal models have equal configurations

    def attn_scale(self, layer: int) -> float | None:
        """By what the scores of this block, counted from 0, are multiplied; None: by 1/sqrt(D), as in the release."""
        scale = 1 / math.sqrt(self.n_embd // self.n_head) if self.scale_attn_weights else 1.0
        if self.scale_attn_by_inverse_layer_idx:
            return scale / (layer + 1)
        return None if self.scale_attn_weights else scale

    def scale_scores(self, blocks: list[Module]) -> None:
        """Tell each attention by what its scores are multiplied."""
        for i, block in enumerate(blocks):
            block.attn.scale = self.attn_scale(i)

"""What published relatives of GPT change in its configuration: the function in the MLP, the scale, the heads."""

import math
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Self

from minigpt.errors import check_whole
from minigpt.models.config import LARGEST, Config
from minigpt.models.config_file import ACTIVATIONS, check_activation, labels_of, named_labels


@dataclass(frozen=True, kw_only=True)
class GPTConfig(Config):
    """What both models have. A subclass says what the function in its MLP is called.

    tie_word_embeddings: is the head the token embedding? activation_key: the name of the value that says which function
    is in the MLP. activations: {its value: the operation}. variants: the other values that change what is computed.
    labels: of the task of a head for them; (): none. pad_token_id: what fills up its rows. label_architecture: the
    class of transformers that has that head.
    """

    activation_key: ClassVar[str]
    label_architecture: ClassVar[str]
    activations: ClassVar[dict[str, str]] = ACTIVATIONS
    variants: ClassVar[tuple[str, ...]] = ("tie_word_embeddings",)

    tie_word_embeddings: bool = True
    labels: tuple[str, ...] = ()
    pad_token_id: int | None = None

    def __post_init__(self):
        super().__post_init__()
        check_activation(self.activation_key, getattr(self, self.activation_key), self.activations)
        if self.pad_token_id is not None:
            check_whole("pad_token_id", self.pad_token_id, "a token id, or None", least=-LARGEST)

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

    @classmethod
    def from_dict(cls, values: dict) -> Self:
        """From a config.json, whose labels count where it names the class that has a head for them.

        Raises InputError as every model's does.
        """
        own = {key: value for key, value in values.items() if key not in ("labels", "pad_token_id")}
        config = super().from_dict(own)
        if values.get("architectures") == [cls.label_architecture]:
            return replace(config, **labels_of(values))
        return config

    def to_dict(self) -> dict:
        """For a config.json."""
        values = super().to_dict()
        labels = values.pop("labels")
        pad = values.pop("pad_token_id")
        if not labels:
            return values
        return values | {"architectures": [self.label_architecture], "pad_token_id": pad} | named_labels(labels)


@dataclass(frozen=True, kw_only=True)
class GPT1Variants(GPTConfig):
    """What GPT-1's files may say beside sizes and rates. Its "gelu" has the tanh form, as in the released model."""

    activation_key = "afn"
    label_architecture = "OpenAIGPTForSequenceClassification"
    activations: ClassVar[dict[str, str]] = {"gelu": "gelu", "relu": "relu", "silu": "silu", "swish": "silu"}


@dataclass(frozen=True, kw_only=True)
class GPT2Variants(GPTConfig):
    """What GPT-2's files may say beside sizes and rates. Its "gelu_new" has the tanh form, its "gelu" the exact one.

    n_inner: the width inside an MLP; None: four times n_embd. scale_attn_weights: are scores divided by sqrt(D)?
    scale_attn_by_inverse_layer_idx: and by the number of the block, counted from 1 (as in Mistral's GPT-2 of 2021)?
    """

    activation_key = "activation_function"
    label_architecture = "GPT2ForSequenceClassification"
    variants: ClassVar[tuple[str, ...]] = (
        "n_inner", "scale_attn_weights", "scale_attn_by_inverse_layer_idx", "tie_word_embeddings",
    )  # fmt: skip

    n_inner: int | None = None
    scale_attn_weights: bool = True
    scale_attn_by_inverse_layer_idx: bool = False

    def attn_scale(self, layer: int) -> float | None:
        """By what the scores of this block, counted from 0, are multiplied; None: by 1/sqrt(D), as in the release."""
        scale = 1 / math.sqrt(self.n_embd // self.n_head) if self.scale_attn_weights else 1.0
        if self.scale_attn_by_inverse_layer_idx:
            return scale / (layer + 1)
        return None if self.scale_attn_weights else scale

    def scale_scores(self, blocks: Iterable[Any]) -> None:
        """Tell each attention by what its scores are multiplied."""
        for i, block in enumerate(blocks):
            block.attn.scale = self.attn_scale(i)

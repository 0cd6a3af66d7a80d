"""How the relatives of BERT stand in files: their keys in a config.json, their names of tensors, and matrices (out,in).

Here q, k and v are one matrix, and every matrix is (in,out). In files of Hugging Face transformers they are three, and
turned. A model says which names belong together; the rest is the same for all.
"""

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar, Self

import numpy as np

from minigpt.errors import InputError, check_whole, shown
from minigpt.files import checkpoint
from minigpt.models.config import Config
from minigpt.models.config_file import ACTIVATIONS, ONLY, check_activation, labels_in, named_labels
from minigpt.models.family import forms
from minigpt.models.family.forms import Form, Layout, Names

NO_PADDING = -1  # the id that tells transformers, which takes one for granted, that no token of ours is padding

UNUSED = (  # endings of the names of tensors with which the pre-trained models here compute nothing
    "position_ids", ".rotary_emb.inv_freq", ".attention.bias", ".attention.masked_bias",
    ".pooler.dense.weight", ".pooler.dense.bias", ".pooler.weight", ".pooler.bias",
    ".EncDecAttention.relative_attention_bias.weight",
)  # fmt: skip
COPIES = (  # endings of the names under which transformers stores the table of tokens, or the head's bias, once more
    "lm_head.weight", "lm_loss.weight", "vocab_projector.weight", "pred_layer.proj.weight", ".embed_tokens.weight",
    "predictions.decoder.weight", "predictions.decoder.bias", "lm_head.decoder.weight", "lm_head.decoder.bias",
    "embed_out.weight",
)  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class PublishedConfig(Config):
    """A configuration whose config.json has other keys than GPT's. A subclass says which.

    keys: {key here: key in the file}. architecture: the class of transformers that opens the file. inner_key: its key
    for the inner width of an MLP. n_inner: that width; None: 4 C. hidden_act: the function inside, by its published
    name; "gelu" is the exact form, "gelu_new" that with tanh. pad_token_id: the token that fills up rows; None: none.
    layout: how it stands in files. form: what stands on its body, one of those of the layout; "" that of pre-training.
    labels: of the task of a head that tells them. tie_word_embeddings: is the output matrix the table of tokens?
    has_padding: does the model compute something else where this token stands, whatever the mask? of_scores: {a setting
    of the head that scores a text: the values that are built here, first that of a file without it}.
    """

    keys: ClassVar[dict[str, str]]
    architecture: ClassVar[str]
    inner_key: ClassVar[str] = "intermediate_size"
    layout: ClassVar[Layout | None] = None
    has_padding: ClassVar[bool] = False
    of_scores: ClassVar[dict[str, tuple]] = {}
    only: ClassVar[dict[str, Any]] = ONLY | {"is_decoder": False, "position_embedding_type": "absolute"}

    n_inner: int | None = None
    hidden_act: str = "gelu_new"
    embd_pdrop: float = 0.1
    attn_pdrop: float = 0.1
    resid_pdrop: float = 0.1
    layer_norm_epsilon: float = 1e-12
    initializer_range: float = 0.02
    pad_token_id: int | None = None
    tie_word_embeddings: bool = True
    form: str = ""
    labels: tuple[str, ...] = ()

    def __init_subclass__(cls, **options):
        super().__init_subclass__(**options)
        if "keys" in cls.__dict__:
            cls.aliases = {key: (name,) for key, name in cls.keys.items()}

    def __post_init__(self):
        super().__post_init__()
        for name in ("embedding_size", "n_segments"):
            if hasattr(self, name):
                self._check_size(name)
        if self.pad_token_id is not None:
            check_whole("pad_token_id", self.pad_token_id, "the id of a token, or None")
        check_activation(self.keys.get("hidden_act", "hidden_act"), self.hidden_act)
        if self.own_head_act is not None:
            check_activation("head_act", self.own_head_act)

    @property
    def activation(self) -> str:
        """The operation inside an MLP."""
        return ACTIVATIONS[self.hidden_act]

    @property
    def head_activation(self) -> str:
        """The operation inside a head that tells words: that of an MLP, or that of its `head_act`."""
        return ACTIVATIONS[self.own_head_act or self.hidden_act]

    @property
    def own_head_act(self) -> str | None:
        """The function inside that head by its published name, where a configuration has a `head_act`."""
        return getattr(self, "head_act", None)

    @property
    def usual_form(self) -> str:
        """What stands on the body while it is pre-trained."""
        assert self.layout is not None
        return self.architecture.removeprefix(self.layout.prefix)

    @property
    def heads(self) -> Form:
        """What stands on the body."""
        if self.layout is None:
            return Form(words={})
        return self.layout.forms[self.form or self.usual_form]

    @property
    def n_scores(self) -> int:
        """How many scores the head has that tells no words."""
        return self.heads.n or len(self.labels) or 2

    @property
    def is_body(self) -> bool:
        """Is it a body alone, which has at most a pooler?"""
        return self.heads.words is None and self.heads.scores is None and self.heads.places is None

    @property
    def saved_as(self) -> str:
        """The class of transformers that opens it."""
        return self.layout.class_of(self.form) if self.layout and self.form else self.architecture

    @property
    def table_width(self) -> int:
        """The width of the embeddings: C, or the embedding_size of a model that has one."""
        return getattr(self, "embedding_size", self.n_embd)

    @property
    def position_rows(self) -> int:
        """How many rows the table of positions has."""
        return self.n_positions

    @classmethod
    def from_dict(cls, values: dict) -> Self:
        """From a config.json. Raises InputError as every model's does."""
        if values.get("pad_token_id") == NO_PADDING:
            values = values | {"pad_token_id": None}
        dropout = values.get(cls.keys.get("resid_pdrop"))
        if dropout is not None:
            values = {"embd_pdrop": dropout} | values
        if cls.inner_key in values:
            values = values | {"n_inner": values[cls.inner_key]}
        own = {key: value for key, value in values.items() if key not in ("form", "labels")}
        config = super().from_dict(own)
        if cls.layout is not None:
            form = forms.named(cls.layout, values.get("architectures"))
            config = replace(config, form=config.shortened(form), labels=labels_in(values))
        pad = config.pad_token_id
        if config.has_padding and pad is not None and pad >= config.vocab_size:
            given = f"config.json has pad_token_id {pad}, and vocab_size {config.vocab_size}"
            raise InputError(f"{given}: give a token's id")
        return config

    def to_dict(self) -> dict:
        """For a config.json, under the published keys."""
        values = super().to_dict()
        if self.pad_token_id is None and self.has_padding:
            values["pad_token_id"] = NO_PADDING
        values |= {name: values.pop(key) for key, name in self.keys.items()}
        labels = values.pop("labels")
        if labels:
            values |= named_labels(labels)
        del values["form"]
        values[self.inner_key] = values.pop("n_inner") or 4 * self.n_embd
        values["architectures"] = [self.saved_as]
        return values

    def check_scores(self, values: dict) -> None:
        """Raises InputError where a config.json has another head that scores a text: its settings are `of_scores`."""
        for key, built in self.of_scores.items():
            value = values.get(key, built[0])
            if self.heads.scores is not None and value not in built:
                given = f"config.json has {key} {shown(value)}"
                raise InputError(f"{given}: only heads for labels with {built[0]!r} are built here")

    def shortened(self, form: str | None) -> str:
        """This form of the layout as a configuration has it."""
        return "" if form in (None, self.usual_form) else form


def to_published(
    tensors: dict[str, np.ndarray], names: Names, widths: tuple[int, int, int] | None = None
) -> dict[str, np.ndarray]:
    """Tensors under the names of the parameters here -> under the published ones.

    widths: those of queries, keys and values, where they are not the same.
    """
    published = {}
    for name, several in names.items():
        tensor = tensors[name]
        cuts: Any = len(several)
        if len(several) == 3 and widths is not None:
            cuts = np.cumsum(widths)[:-1]
        parts = np.split(tensor, cuts, axis=-1) if len(several) > 1 else [tensor]
        for published_name, part in zip(several, parts, strict=True):
            published[published_name] = part.T.copy() if is_turned(name, part) else part.copy()
    return published


def from_published(tensors: dict[str, np.ndarray], names: Names, folder: Path) -> dict[str, np.ndarray]:
    """The other way round. Raises InputError for a tensor that is missing, and as `check_others` does."""
    check_others(tensors, names, folder)
    plain = {}
    for name, several in names.items():
        parts = []
        for published_name in several:
            if published_name not in tensors:
                raise InputError(f"{folder}: {checkpoint.without(published_name, tensors)}")
            part = tensors[published_name]
            parts.append(part.T if is_turned(name, part) else part)
        plain[name] = np.concatenate(parts, axis=-1) if len(parts) > 1 else parts[0]
    return plain


def check_others(tensors: dict[str, np.ndarray], names: Names, folder: Path) -> None:
    """Raises InputError for a tensor that has no name here, and would change what the model computes.

    What a model does not use is left out, and so is a copy of what it does use. Nothing is said where a tensor of the
    model is missing, which explains more.
    """
    used = {published_name for several in names.values() for published_name in several}
    if not used <= tensors.keys():
        return
    for name in sorted(tensors.keys() - used):
        if name.endswith(UNUSED):
            continue
        if not name.endswith(COPIES):
            raise InputError(f"{folder}: tensor {name} does not belong to this model")
        if not any(np.array_equal(tensors[name], tensors[other]) for other in used):
            advice = 'for a head of its own config.json must say "tie_word_embeddings": false'
            raise InputError(f"{folder}: {name} differs from the token embedding: {advice}")


def is_turned(name: str, tensor: np.ndarray) -> bool:
    """Is this parameter a matrix of a linear layer, which is (out,in) in files? Tables are not, nor a head of its own.
    """
    is_matrix = tensor.ndim == 2 and name.endswith(".weight")
    return is_matrix and not name.endswith(("s_embed.weight", "lm_head.weight"))

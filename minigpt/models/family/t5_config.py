"""The configuration of T5: its own, and those that files of versions 1.0 and 1.1, mT5, Flan-T5 and UL2 have."""

from dataclasses import dataclass
from typing import Any, ClassVar, Self

from minigpt.errors import InputError, shown
from minigpt.models.config import Config
from minigpt.models.config_file import ACTIVATIONS

KEYS = {  # key here -> that of a Hugging Face config.json of T5
    "n_embd": "d_model",
    "n_layer": "num_layers",
    "n_head": "num_heads",
    "n_buckets": "relative_attention_num_buckets",
    "max_distance": "relative_attention_max_distance",
    "resid_pdrop": "dropout_rate",
    "initializer_range": "initializer_factor",
}
GATED = "gated-"
WITHIN = {  # feed_forward_proj -> the function inside, as newer files say once more
    "relu": "relu", "gelu": "gelu", "gated-gelu": "gelu_new", "gated-relu": "relu", "gated-silu": "silu",
}  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class T5Config(Config):
    """Sizes and rates; the defaults are those of T5-small. In a config.json they have Hugging Face's keys for T5.

    n_layer: of each side. d_kv: the size of a head. d_ff: the inner width of the feed-forward network. n_positions: how
    many tokens are read at once, although nothing in the model depends on it. initializer_range: a factor of the
    initial weights, whose standard deviation follows from the sizes. feed_forward_proj: "relu" in version 1.0,
    "gated-gelu" in 1.1, mT5 and Flan-T5, "gated-silu" in UL2. tie_word_embeddings: is the head the table of tokens?
    scale_decoder_outputs: is the head's input divided by sqrt(C)? Both are so in version 1.0, and neither in 1.1.
    """

    aliases: ClassVar[dict[str, tuple[str, ...]]] = {key: (name,) for key, name in KEYS.items()}
    only: ClassVar[dict[str, Any]] = {
        "is_encoder_decoder": True,
    }  # fmt: skip
    other_types: ClassVar[tuple[str, ...]] = ("mt5",)

    model_type: str = "t5"
    vocab_size: int = 32128
    n_positions: int = 512
    n_embd: int = 512
    n_layer: int = 6
    n_head: int = 8
    d_kv: int = 64
    d_ff: int = 2048
    n_buckets: int = 32
    max_distance: int = 128
    embd_pdrop: float = 0.1
    attn_pdrop: float = 0.1
    resid_pdrop: float = 0.1
    layer_norm_epsilon: float = 1e-6
    initializer_range: float = 1.0
    feed_forward_proj: str = "relu"
    tie_word_embeddings: bool = True
    scale_decoder_outputs: bool = True
    pad_token_id: int | None = None
    decoder_start_token_id: int | None = None

    def __post_init__(self):
        super().__post_init__()
        for name in ("d_kv", "d_ff", "n_buckets", "max_distance"):
            self._check_size(name)
        if self.n_buckets < 4 or self.n_buckets % 2 or self.max_distance <= self.n_buckets:
            given = f"n_buckets is {self.n_buckets} and max_distance {self.max_distance}"
            raise InputError(f"{given}: give an even number of 4 or more, and a distance above it")
        if not isinstance(self.feed_forward_proj, str) or self.feed_forward_proj not in WITHIN:
            raise InputError(f"feed_forward_proj is {shown(self.feed_forward_proj)}: give one of {', '.join(WITHIN)}")

    def _check_heads(self) -> None:
        """Heads have a size of their own, and need not share the width: T5 1.1 small has 6 of 64, and is 512 wide."""

    @property
    def is_gated(self) -> bool:
        """Has the feed-forward network a gate?"""
        return self.feed_forward_proj.startswith(GATED)

    @property
    def activation(self) -> str:
        """The operation in the feed-forward network."""
        return ACTIVATIONS[WITHIN[self.feed_forward_proj]]

    @classmethod
    def from_dict(cls, values: dict) -> Self:
        """From a config.json. Raises InputError as every model's does, and for a decoder of another depth.

        Only the oldest files say n_positions: it is 512 where it is missing, as it was in transformers.
        """
        values = {"n_positions": cls.n_positions} | values
        rate = values.get(KEYS["resid_pdrop"])
        if rate is not None:
            values = {"embd_pdrop": rate, "attn_pdrop": rate} | values
        if values.get("tie_word_embeddings") is False:  # so T5 1.1 says that the input of its head is not divided
            values = {"scale_decoder_outputs": False} | values
        if "pad_token_id" in values:  # with which T5 starts what it writes
            values = {"decoder_start_token_id": values["pad_token_id"]} | values
        config = super().from_dict(values)
        n_decoder = values.get("num_decoder_layers")
        if n_decoder not in (None, config.n_layer):
            what = f"num_decoder_layers is {n_decoder}, and the encoder has {config.n_layer}"
            raise InputError(f"{what}: only an encoder and a decoder of one size are built here, not those of ByT5")
        same = {"is_gated_act": config.is_gated, "dense_act_fn": WITHIN[config.feed_forward_proj]}
        for key, value in same.items():
            if values.get(key, value) != value:
                given = f"feed_forward_proj {config.feed_forward_proj!r} and {key} {values[key]!r}"
                raise InputError(f"config.json has {given}, which do not belong together: remove the wrong one")
        return config

    def to_dict(self) -> dict:
        """For a config.json, under Hugging Face's keys."""
        values = super().to_dict()
        values |= {name: values.pop(key) for key, name in KEYS.items()}
        values |= {"num_decoder_layers": self.n_layer, "is_encoder_decoder": True}
        values["architectures"] = ["T5ForConditionalGeneration"]
        return values

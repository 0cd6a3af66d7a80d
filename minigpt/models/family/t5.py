"""T5 (Raffel et al. 2020): every task is text in, text out; here its pre-training, which fills in spans.

What differs from BART: each block normalises before, and by the root mean square only; there are no biases, and no
positions, but a table of distances that all blocks of a side share; scores have no scale; the feed-forward network has
ReLU (section 2.1). The decoder writes only what the source has lost (section 3.1.4). Version 1.1, mT5 and Flan-T5 have
a gate in the feed-forward network, and a head of their own.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Self

import numpy as np

from minigpt.data.objectives import Objective, lost_spans
from minigpt.device.arrays import Array
from minigpt.errors import InputError, shown
from minigpt.files import checkpoint
from minigpt.models.config import Config
from minigpt.models.config_file import ACTIVATIONS
from minigpt.models.family import forms, translation
from minigpt.models.family.encoder_decoder import END, PAD, EncoderDecoder, encoder_decoder_card
from minigpt.models.family.forms import in_layers, inside
from minigpt.models.family.stacks import Stack
from minigpt.models.family.t5_blocks import DecoderBlock, EncoderBlock, T5Stack
from minigpt.nn import Embedding
from minigpt.tokenizer import Tokenizer

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
OWN_HEAD = "lm_head.weight"
OF_MT5 = {"feed_forward_proj": "gated-gelu", "scale_decoder_outputs": False}  # what a file of mT5 need not say


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


class T5(EncoderDecoder):
    """The encoder and the decoder of T5, versions 1.0 and 1.1. seed: as for GPT1.

    Of version 1.0 the head is the embedding, whose input is divided by sqrt(C): so the embedding itself can begin as
    N(0, 1). Version 1.1 has a head of its own, which begins as N(0, 1 / C).
    """

    Config = T5Config
    dropout_sites = 6

    def __init__(self, config: T5Config, seed: int | None = 0, dtype=np.float32):
        super().__init__(config, seed, dtype)
        if not config.tie_word_embeddings:
            rng = None if seed is None else np.random.default_rng([seed, 1])
            std = config.initializer_range * config.n_embd**-0.5
            self.lm_head = Embedding(config.vocab_size, config.n_embd, rng, std, dtype)

    def build_encoder(self, rng: np.random.Generator | None, dtype) -> Stack:
        """Its distances are on both sides."""
        return T5Stack(self.config, EncoderBlock, rng, dtype, both_sides=True, scale=1.0)

    def build_decoder(self, rng: np.random.Generator | None, dtype) -> Stack:
        """Its output fits the head."""
        scale = self.config.n_embd**-0.5 if self.config.scale_decoder_outputs else 1.0
        return T5Stack(self.config, DecoderBlock, rng, dtype, both_sides=False, scale=scale)

    def place(self, ids: Array, past=None, positions: Array | None = None) -> tuple[Array, Array]:
        """As `LanguageModel.place`. Raises InputError for positions too: T5 has none."""
        if positions is not None:
            raise InputError("T5 has distances in place of positions: leave positions out")
        return super().place(ids, past, None)

    @classmethod
    def least_size(cls, config: T5Config) -> int:
        """The numbers in its matrices: the tables, and in a layer of both sides 12 C NH D of attention and 4 C F.

        With a gate it is 6 C F.
        """
        c = config.n_embd
        tables = config.vocab_size * c + 2 * config.n_buckets * config.n_head
        layer = 12 * config.n_head * config.d_kv + (6 if config.is_gated else 4) * config.d_ff
        return tables + config.n_layer * layer * c

    def published_names(self) -> forms.Names:
        """Those of T5ForConditionalGeneration."""
        return forms.names_of(PLACES, self._parameter_names(), self.config.n_layer)

    @classmethod
    def read_config(cls, folder: Path) -> dict:
        """As of every model; the weights say whether the head is the table of tokens.

        Newer versions of transformers write of every T5 that it is, and keep a head that is not.
        """
        values = super().read_config(folder)
        if values["model_type"] == "mt5":
            values = OF_MT5 | values
        unscaled = values.get("scale_decoder_outputs") is False
        if unscaled and OWN_HEAD in (checkpoint.shapes(folder) or {}):
            values = values | {"tie_word_embeddings": False}
        return values


ATTENTION = {  # modules of a block here -> in a layer of Hugging Face's T5
    "attn.c_attn": ["0.SelfAttention.q", "0.SelfAttention.k", "0.SelfAttention.v"],
    "attn.c_proj": "0.SelfAttention.o",
    "ln_1": "0.layer_norm",
}
REST = {  # the network, with a gate or without, which stands in a layer of its own
    "ln_2": "layer_norm",
    "mlp.wi": "DenseReluDense.wi",
    "mlp.gate": "DenseReluDense.wi_0",
    "mlp.up": "DenseReluDense.wi_1",
    "mlp.down": "DenseReluDense.wo",
    "mlp.wo": "DenseReluDense.wo",
}
ENCODER_LAYER = ATTENTION | inside("1", REST)
DECODER_LAYER = ATTENTION | {
    "crossattention.q_attn": "1.EncDecAttention.q",
    "crossattention.c_attn": ["1.EncDecAttention.k", "1.EncDecAttention.v"],
    "crossattention.c_proj": "1.EncDecAttention.o",
    "ln_cross_attn": "1.layer_norm",
} | inside("2", REST)
PLACES: dict[str, forms.Places] = {
    "tokens_embed": "shared",
    "encoder.distances_embed": "encoder.block.0.layer.0.SelfAttention.relative_attention_bias",
    "encoder.ln_f": "encoder.final_layer_norm",
    "decoder.distances_embed": "decoder.block.0.layer.0.SelfAttention.relative_attention_bias",
    "decoder.ln_f": "decoder.final_layer_norm",
    "lm_head": "lm_head",
}
PLACES |= in_layers("encoder.block.{}.layer", ENCODER_LAYER, "encoder.h.{}")
PLACES |= in_layers("decoder.block.{}.layer", DECODER_LAYER, "decoder.h.{}")

SIZES = {
    "nano": {"n_layer": 2, "n_head": 4, "n_embd": 128, "n_positions": 64, "d_kv": 32, "d_ff": 512},
    "mini": {"n_layer": 3, "n_head": 6, "n_embd": 384, "n_positions": 256, "d_kv": 64, "d_ff": 1536},
    "small": {"n_layer": 6, "n_head": 8, "n_embd": 512, "n_positions": 512, "d_kv": 64, "d_ff": 2048},
    "base": {"n_layer": 12, "n_head": 12, "n_embd": 768, "n_positions": 512, "d_kv": 64, "d_ff": 3072},
    "large": {"n_layer": 24, "n_head": 16, "n_embd": 1024, "n_positions": 512, "d_kv": 64, "d_ff": 4096},
}

N_SENTINELS = 32  # enough for 512 tokens, of which 77 are lost in 26 spans
SENTINELS = tuple(f"_extra_{i}_" for i in range(N_SENTINELS))  # which span was here? _extra_0_ is the first


def filled_spans(text: Tokenizer, rate: float) -> Objective:
    """T5's objective for this vocabulary: write the spans that the source has lost (section 3.1.4)."""
    sentinels = [text.ids[name] for name in SENTINELS]
    return lost_spans(sentinels, text.ids[PAD], text.ids[END], rate)


CARD = encoder_decoder_card(
    "t5", T5, SIZES, PAD,  # a decoder starts with the padding
    usual_size="small",
    objective=filled_spans,
    special_tokens=(PAD, END, *reversed(SENTINELS)),  # the first one is the last of the vocabulary, as in T5's
    init_std=None,  # it follows from the sizes
    mask_rate=0.15,
    other_aims=(translation.writing(PAD),),
)

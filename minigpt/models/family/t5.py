"""T5 (Raffel et al. 2020): every task is text in, text out; here its pre-training, which fills in spans.

What differs from BART: each block normalises before, and by the root mean square only; there are no biases, and no
positions, but a table of distances that all blocks of a side share; scores have no scale; the feed-forward network has
ReLU (section 2.1). The decoder writes only what the source has lost (section 3.1.4). Version 1.1, mT5 and Flan-T5 have
a gate in the feed-forward network, and a head of their own.
"""

from pathlib import Path

import numpy as np

from minigpt.data.objectives import Objective, lost_spans
from minigpt.device.arrays import Array
from minigpt.errors import InputError
from minigpt.files import checkpoint
from minigpt.models.family import forms, translation
from minigpt.models.family.encoder_decoder import END, PAD, EncoderDecoder, encoder_decoder_card
from minigpt.models.family.forms import in_layers, inside
from minigpt.models.family.stacks import Stack
from minigpt.models.family.t5_blocks import DecoderBlock, EncoderBlock, T5Stack
from minigpt.models.family.t5_config import T5Config
from minigpt.nn import Embedding
from minigpt.tokenizer import Tokenizer

OWN_HEAD = "lm_head.weight"
OF_MT5 = {"feed_forward_proj": "gated-gelu", "scale_decoder_outputs": False}  # what a file of mT5 need not say


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

"""BART (Lewis et al. 2020): a text with noise goes in, the whole text comes out.

What differs from MASS: a LayerNorm on the embeddings, and above all what is predicted: all of the text, from a source
that may be shorter, because a span of any length becomes a single mask (section 2.2).
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from minigpt.data.input_transformations import START
from minigpt.device.arrays import Array, array_module
from minigpt.errors import InputError
from minigpt.models.card import ids_of
from minigpt.models.family import translation
from minigpt.models.family.bart_noises import NOISES, infilled_and_permuted, restored_after
from minigpt.models.family.encoder import MASK
from minigpt.models.family.encoder_decoder import (
    END,
    PAD,
    SMALL,
    EncoderDecoder,
    EncoderDecoderConfig,
    encoder_decoder_card,
)
from minigpt.models.family.forms import Form, Layout, in_layers
from minigpt.models.token_ids import as_array, check_ids, last_state

UNUSED_ROWS = 2  # transformers' tables of positions begin with two rows that no position has

BLOCK = {  # modules of a block here -> in a layer of Hugging Face's BART
    "attn.c_attn": ["self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj"],
    "attn.c_proj": "self_attn.out_proj",
    "ln_1": "self_attn_layer_norm",
    "mlp.c_fc": "fc1",
    "mlp.c_proj": "fc2",
    "ln_2": "final_layer_norm",
}
CROSS = {  # what a layer of the decoder has beside
    "crossattention.q_attn": "encoder_attn.q_proj",
    "crossattention.c_attn": ["encoder_attn.k_proj", "encoder_attn.v_proj"],
    "crossattention.c_proj": "encoder_attn.out_proj",
    "ln_cross_attn": "encoder_attn_layer_norm",
}
ENCODER = in_layers("encoder.layers.{}", BLOCK, "encoder.h.{}")
DECODER = in_layers("decoder.layers.{}", BLOCK | CROSS, "decoder.h.{}")
TABLES = {
    "tokens_embed": "shared",
    "encoder.positions_embed": "encoder.embed_positions",
    "encoder.ln_embed": "encoder.layernorm_embedding",
    "decoder.positions_embed": "decoder.embed_positions",
    "decoder.ln_embed": "decoder.layernorm_embedding",
}
POSITIONS = ("model.encoder.embed_positions.weight", "model.decoder.embed_positions.weight")
HEAD_BIAS = "final_logits_bias"

LAYOUT = Layout("Bart", "model", TABLES, ENCODER | DECODER, "lm_head", {
    "ForConditionalGeneration": Form(words={}),
    "ForSequenceClassification": Form(dense="classification_head.dense", scores="classification_head.out_proj"),
    "ForQuestionAnswering": Form(places="qa_outputs", n=2),
})  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class BARTConfig(EncoderDecoderConfig):
    """Sizes and rates; the defaults are those of BART-base, without rows of positions that no text uses."""

    architecture: ClassVar[str] = "BartForConditionalGeneration"
    layout: ClassVar[Layout | None] = LAYOUT
    left_out: ClassVar[dict[str, Any]] = {
        "activation_function": "gelu", "encoder_ffn_dim": 4096, "decoder_ffn_dim": 4096, "decoder_start_token_id": 2,
    }  # fmt: skip

    model_type: str = "bart"
    n_positions: int = 1024
    n_embd: int = 768
    n_layer: int = 6
    n_head: int = 12


class BART(EncoderDecoder):
    """The encoder and the decoder of BART. seed: as for GPT1.

    The head that tells words is the table of tokens: a file of a body alone, a BartModel, has all of it.
    """

    Config = BARTConfig
    normalises_embeddings = True

    def __init__(self, config: BARTConfig, seed: int | None = 0, dtype=np.float32):
        super().__init__(config, seed, dtype)
        self.build_heads(seed, None, dtype)

    def label_scores(self, ids: Array, mask: Array | None = None, **inputs) -> Array:
        """ids (B,T) int -> scores (B,K) of the labels of its file

        Both sides read the text, the decoder behind the token it starts with (section 3.1). The state is that at the
        last token that ends a text. Raises InputError for a row without one, and for a model that has no labels.
        """
        self.check_labels()
        config = self.config
        xp = array_module(ids)
        ids = check_ids(ids)
        is_end = ids == config.eos_token_id
        if config.eos_token_id is None or not is_end.any(axis=1).all():
            raise InputError(f"a row has no token {config.eos_token_id}, which ends a text: BART reads its state there")
        first = xp.full((len(ids), 1), config.decoder_start_token_id)
        read = xp.concatenate([first, ids[:, :-1]], axis=1)
        h, _ = self.hidden(read, grad=False, source=ids, source_mask=mask, **inputs)
        return self.sentences.forward(last_state(h, is_end))[0]

    def scores_at(self, ids: Array, places: list[int]) -> Array:
        """ids (T,) int, N places -> scores (N,V) of the word at each: the decoder is given the same text before it"""
        source = as_array(ids, "ids are")[None]
        _, start = self.continuing(source)
        logits, _ = self.forward(np.concatenate([start, source[:, :-1]], axis=1), grad=False, source=source)
        return logits[0, places]

    def to_published(self, tensors: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
        """Hugging Face's names; its unused rows of the tables of positions, and its bias of the head, are zeros."""
        found = super().to_published(tensors)
        for name in POSITIONS:
            found[name] = np.pad(found[name], ((UNUSED_ROWS, 0), (0, 0)))
        table = found["model.shared.weight"]
        if self.config.heads.words is None:
            return found
        return found | {HEAD_BIAS: np.zeros((1, len(table)), table.dtype)}

    def from_published(self, tensors: dict[str, np.ndarray], folder: Path) -> dict[str, np.ndarray]:
        """The other way round. The tables of tokens that are stored again are left out.

        Raises InputError for a tensor that is missing, and for a bias of the head that is not zero.
        """
        tensors = self.under_whole_names(tensors)
        if np.any(tensors.get(HEAD_BIAS, 0)):
            raise InputError(f"{folder}: {HEAD_BIAS} is not zero: only a head without a bias is built here")
        without = {name: tensors[name][UNUSED_ROWS:] for name in POSITIONS if name in tensors}
        others = {name: tensor for name, tensor in tensors.items() if name != HEAD_BIAS}
        return super().from_published(others | without, folder)


SIZES = SMALL | {
    "base": {"n_layer": 6, "n_head": 12, "n_embd": 768, "n_positions": 1024},
    "large": {"n_layer": 12, "n_head": 16, "n_embd": 1024, "n_positions": 1024},
}


CARD = encoder_decoder_card(
    "bart", BART, SIZES, START,
    usual_size="base",
    objective=restored_after(infilled_and_permuted),
    special_tokens=(PAD, START, END, MASK),
    token_settings=ids_of(pad_token_id=PAD, bos_token_id=START, eos_token_id=END, decoder_start_token_id=START),
    mask_rate=0.3,
    other_aims=(*NOISES, translation.writing(START)),
    differs="the published models, 139,420,416 (base) and 406,291,456 (large), have two more rows in each of their two "
    "tables of positions, which no text uses: a saved model has them too",
)

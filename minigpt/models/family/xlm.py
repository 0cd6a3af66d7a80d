"""XLM (Conneau and Lample 2019): one encoder for several languages, each with a vector that is added to its tokens.

A sentence and its translation are read together, both with positions from 0 and with covered words, so that one side
helps to fill in the other (section 3.4, translation language modelling: `data.objectives.covered_translations`).
"""

from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np

from minigpt.device.arrays import Array
from minigpt.models.card import ids_of
from minigpt.models.config_file import ONLY
from minigpt.models.family import translation
from minigpt.models.family.encoder import SMALL, SPECIAL, Encoder, encoder_card
from minigpt.models.family.encoder_decoder import PAD
from minigpt.models.family.forms import Form, Layout
from minigpt.models.family.heads import BiasHead
from minigpt.models.family.published import PublishedConfig
from minigpt.models.token_ids import first_places

TABLES = {  # modules beside the blocks -> in the body of Hugging Face's XLM
    "tokens_embed": "embeddings",
    "positions_embed": "position_embeddings",
    "segments_embed": "lang_embeddings",
    "ln_embed": "layer_norm_emb",
}
BLOCK = {  # modules of a block here -> there
    "h.{}.attn.c_attn": ["attentions.{}.q_lin", "attentions.{}.k_lin", "attentions.{}.v_lin"],
    "h.{}.attn.c_proj": "attentions.{}.out_lin",
    "h.{}.ln_1": "layer_norm1.{}",
    "h.{}.mlp.c_fc": "ffns.{}.lin1",
    "h.{}.mlp.c_proj": "ffns.{}.lin2",
    "h.{}.ln_2": "layer_norm2.{}",
}

LAYOUT = Layout("XLM", "transformer", TABLES, BLOCK, "pred_layer.proj", {
    "WithLMHeadModel": Form(words={"words.bias": "pred_layer.proj.bias"}),
    "ForSequenceClassification": Form(scores="sequence_summary.summary"),
    "ForQuestionAnsweringSimple": Form(places="qa_outputs", n=2),
    "ForTokenClassification": Form(places="classifier"),
    "Model": Form(),
})  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class XLMConfig(PublishedConfig):
    """Sizes and rates, under Hugging Face's keys for XLM; the defaults are those of its English and French model.

    n_segments: of languages; segment i is language i. hidden_act: "gelu" or "relu", as transformers' key
    gelu_activation can say; "gelu_new" is that of earlier versions, whose files it reads with the exact form.
    """

    keys: ClassVar[dict[str, str]] = {
        "n_positions": "max_position_embeddings",
        "n_segments": "n_langs",
        "n_embd": "emb_dim",
        "n_layer": "n_layers",
        "n_head": "n_heads",
        "resid_pdrop": "dropout",
        "attn_pdrop": "attention_dropout",
        "layer_norm_epsilon": "layer_norm_eps",
        "initializer_range": "init_std",
        "pad_token_id": "pad_index",
    }
    architecture: ClassVar[str] = "XLMWithLMHeadModel"
    layout: ClassVar[Layout | None] = LAYOUT
    own: ClassVar[dict[str, Any]] = {
        "sinusoidal_embeddings": False, "causal": False, "asm": False, "is_encoder": True,
    }  # fmt: skip
    only: ClassVar[dict[str, Any]] = ONLY | own
    has_padding: ClassVar[bool] = True
    of_scores: ClassVar[dict[str, tuple]] = {"summary_type": ("first",), "summary_activation": (None,)}
    left_out: ClassVar[dict[str, Any]] = {"pad_token_id": 2, "n_langs": 1}

    model_type: str = "xlm"
    vocab_size: int = 64139
    n_positions: int = 512
    n_embd: int = 1024
    n_layer: int = 6
    n_head: int = 8
    n_segments: int = 2
    hidden_act: str = "gelu"

    @classmethod
    def from_dict(cls, values: dict) -> Self:
        """From a config.json, whose padding has one of two names. Raises InputError as BERT's does."""
        values = {"hidden_act": "gelu" if values.get("gelu_activation", True) else "relu"} | values
        if values.get("use_lang_emb") is False:
            values[cls.keys["n_segments"]] = 1
        index = values.pop("pad_index", None)
        return super().from_dict(values if index is None else values | {"pad_token_id": index})

    def to_dict(self) -> dict:
        """For a config.json. Programs differ in what they call the padding: it stands there under both names."""
        values = super().to_dict() | self.own
        values["gelu_activation"] = self.hidden_act != "relu"
        return values | {"pad_token_id": values["pad_index"]}


class XLM(Encoder):
    """The encoder of XLM with the head of its pre-training. segments are languages. seed: as for GPT1."""

    Config = XLMConfig
    word_head = BiasHead

    def build_embeddings(self, rng: np.random.Generator | None, dtype) -> None:
        """As in BERT; a model of one language has no vector for it."""
        super().build_embeddings(rng, dtype)
        if self.config.n_segments == 1:
            self.segments_embed = None

    def place_mask(self, mask: Array | None, ids: Array) -> Array:
        """As `Encoder.place_mask`. Without a mask as many tokens are seen, from the left, as are not padding."""
        pad = self.config.pad_token_id
        if mask is None and pad is not None:
            lengths = (ids != pad).sum(axis=1)
            mask = first_places(lengths, ids.shape[1])
        return super().place_mask(mask, ids)

    def inputs_of(self, ids: Array, lengths: Array, delimiter: int | None = None) -> dict[str, Array]:
        """A mask that hides what fills up a row. Both texts of a task are in the first language."""
        return super().inputs_of(ids, lengths, None)


SIZES = SMALL | {
    "base": {"n_layer": 6, "n_head": 8, "n_embd": 1024, "n_positions": 512},
}

CARD = encoder_card(
    "xlm", XLM, SIZES,
    special_tokens=(PAD, *SPECIAL),
    token_settings=ids_of(pad_token_id=PAD),  # a token that no text has
    other_aims=(translation.COVERING,),
)

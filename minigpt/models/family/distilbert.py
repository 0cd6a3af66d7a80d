"""DistilBERT (Sanh, Debut, Chaumond and Wolf 2019): BERT with half of the layers, no segments and one task.

It learns from a teacher, see `distillation`. Without one it learns covered words alone.
"""

from dataclasses import dataclass
from typing import Any, ClassVar

from minigpt.models.family import bert
from minigpt.models.family.distillation import Student
from minigpt.models.family.encoder import covered_words_and_all, encoder_card
from minigpt.models.family.forms import Form, Layout, at_places, in_layers
from minigpt.models.family.published import PublishedConfig

BLOCK = {  # modules of a block here -> in a layer of Hugging Face's DistilBERT
    "attn.c_attn": ["attention.q_lin", "attention.k_lin", "attention.v_lin"],
    "attn.c_proj": "attention.out_lin",
    "ln_1": "sa_layer_norm",
    "mlp.c_fc": "ffn.lin1",
    "mlp.c_proj": "ffn.lin2",
    "ln_2": "output_layer_norm",
}

TABLES = {key: name for key, name in bert.TABLES.items() if key != "segments_embed"}
WORDS = {"words.dense": "vocab_transform", "words.ln": "vocab_layer_norm", "words.bias": "vocab_projector.bias"}
LABELS = Form(dense="pre_classifier", act="relu", scores="classifier")

LAYOUT = Layout("DistilBert", "distilbert", TABLES, in_layers("transformer.layer.{}", BLOCK), "vocab_projector", {
    "ForMaskedLM": Form(words=WORDS),
    "ForSequenceClassification": LABELS,
    **at_places(LABELS),
    "Model": Form(),
})  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class DistilBERTConfig(PublishedConfig):
    """Sizes and rates; the defaults are those of DistilBERT-base."""

    keys: ClassVar[dict[str, str]] = {
        "n_positions": "max_position_embeddings",
        "n_embd": "dim",
        "n_layer": "n_layers",
        "n_head": "n_heads",
        "resid_pdrop": "dropout",
        "attn_pdrop": "attention_dropout",
        "hidden_act": "activation",
    }
    architecture: ClassVar[str] = "DistilBertForMaskedLM"
    layout: ClassVar[Layout | None] = LAYOUT
    inner_key: ClassVar[str] = "hidden_dim"
    left_out: ClassVar[dict[str, Any]] = {"activation": "gelu", "hidden_dim": 3072}

    model_type: str = "distilbert"
    vocab_size: int = 30522
    n_positions: int = 512
    n_embd: int = 768
    n_layer: int = 6
    n_head: int = 12


class DistilBERT(Student):
    """The encoder of DistilBERT with the head of its pre-training. seed: as for GPT1."""

    Config = DistilBERTConfig


SIZES = {
    "nano": {"n_layer": 2, "n_head": 4, "n_embd": 128, "n_positions": 64},
    "mini": {"n_layer": 3, "n_head": 6, "n_embd": 384, "n_positions": 256},
    "base": {"n_layer": 6, "n_head": 12, "n_embd": 768, "n_positions": 512},
}

CARD = encoder_card("distilbert", DistilBERT, SIZES, objective=covered_words_and_all)

"""DistilBERT (Sanh, Debut, Chaumond and Wolf 2019): BERT with half of the layers, no segments and one task."""

from dataclasses import dataclass
from typing import ClassVar

from minigpt.models.card import Card, as_wide_as_the_paper
from minigpt.models.config_file import ONLY
from minigpt.models.family import published
from minigpt.models.family.encoder import MASK, MASK_RATE, Encoder, covered_words
from minigpt.models.family.published import PublishedConfig
from minigpt.nn.optim import AdamW
from minigpt.tokenizer import GPT1Tokenizer

BLOCK = {  # modules of a block here -> in a layer of Hugging Face's DistilBERT
    "attn.c_attn": ["attention.q_lin", "attention.k_lin", "attention.v_lin"],
    "attn.c_proj": "attention.out_lin",
    "ln_1": "sa_layer_norm",
    "mlp.c_fc": "ffn.lin1",
    "mlp.c_proj": "ffn.lin2",
    "ln_2": "output_layer_norm",
}


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
    inner_key: ClassVar[str] = "hidden_dim"
    only: ClassVar = ONLY | {"sinusoidal_pos_embds": False}

    model_type: str = "distilbert"
    vocab_size: int = 30522
    n_positions: int = 512
    n_embd: int = 768
    n_layer: int = 6
    n_head: int = 12


class DistilBERT(Encoder):
    """The encoder of DistilBERT with the head of its pre-training. seed: as for GPT1."""

    Config = DistilBERTConfig

    def published_names(self) -> published.Names:
        """Those of DistilBertForMaskedLM; the head that is stored again is left out."""
        pairs = [
            ("tokens_embed", ["distilbert.embeddings.word_embeddings"]),
            ("positions_embed", ["distilbert.embeddings.position_embeddings"]),
            ("ln_embed", ["distilbert.embeddings.LayerNorm"]),
        ]
        for i in range(self.config.n_layer):
            pairs += published.of_block(f"h.{i}", f"distilbert.transformer.layer.{i}", BLOCK)
        pairs += [("words.dense", ["vocab_transform"]), ("words.ln", ["vocab_layer_norm"])]
        return published.of_modules(pairs) | {"words.bias": ["vocab_projector.bias"]}


SIZES = {
    "nano": {"n_layer": 2, "n_head": 4, "n_embd": 128, "n_positions": 64},
    "mini": {"n_layer": 3, "n_head": 6, "n_embd": 384, "n_positions": 256},
    "base": {"n_layer": 6, "n_head": 12, "n_embd": 768, "n_positions": 512},
}

CARD = Card(
    "distilbert",
    DistilBERT,
    SIZES,
    usual_size="base",
    tokenizer=GPT1Tokenizer,
    optimizer=AdamW,
    objective=covered_words,
    special_tokens=(MASK,),
    init_std=as_wide_as_the_paper,
    mask_rate=MASK_RATE,
)

"""ALBERT (Lan et al. 2020): BERT with one block that runs n_layer times, and with narrow tables that are widened.

Its second task is harder than BERT's: both parts come from one text, and it must tell which came first (section 3.1).
Parameters that all layers share are one parameter: each use adds to its gradient.
"""

import dataclasses
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from minigpt.data.input_transformations import DELIMITER, START
from minigpt.data.objectives import Objective, n_grams, sentence_order
from minigpt.models.family.bert import TABLES, BERTConfig
from minigpt.models.family.encoder import MASK, PairEncoder, encoder_card
from minigpt.models.family.forms import WITHOUT, Form, Layout, at_places, in_layers
from minigpt.models.gpt1 import Block
from minigpt.nn import Linear, Module
from minigpt.tokenizer import Tokenizer

BLOCK = {  # modules of the block here -> in the one layer of Hugging Face's ALBERT
    "attn.c_attn": ["attention.query", "attention.key", "attention.value"],
    "attn.c_proj": "attention.dense",
    "ln_1": "attention.LayerNorm",
    "mlp.c_fc": "ffn",
    "mlp.c_proj": "ffn_output",
    "ln_2": "full_layer_layer_norm",
}
LAYERS = in_layers("encoder.albert_layer_groups.0.albert_layers.0", BLOCK)
WORDS = {"words.dense": "predictions.dense", "words.ln": "predictions.LayerNorm", "words.bias": "predictions.bias"}
POOLER = Form(dense="albert.pooler")
LABELS = POOLER._replace(scores="classifier")

LAYOUT = Layout("Albert", "albert", TABLES | {"widen": "encoder.embedding_hidden_mapping_in"}, LAYERS,
                "predictions.decoder", {
    "ForPreTraining": POOLER._replace(words=WORDS, scores="sop_classifier.classifier", n=2),
    "ForMaskedLM": Form(words=WORDS),
    "ForSequenceClassification": LABELS,
    **at_places(LABELS),
    "Model": POOLER,
    f"Model{WITHOUT}": Form(),
})  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class ALBERTConfig(BERTConfig):
    """Sizes and rates; the defaults are those of ALBERT-base. embedding_size: E, the width of the tables."""

    architecture: ClassVar[str] = "AlbertForPreTraining"
    layout: ClassVar[Layout | None] = LAYOUT
    left_out: ClassVar[dict[str, Any]] = {"intermediate_size": 16384}
    only: ClassVar = BERTConfig.only | {"num_hidden_groups": 1, "inner_group_num": 1}

    model_type: str = "albert"
    vocab_size: int = 30000
    embedding_size: int = 128


class ALBERT(PairEncoder):
    """The encoder of ALBERT with both heads of its pre-training, or those of its file. seed: as for GPT1."""

    Config = ALBERTConfig

    def build_embeddings(self, rng: np.random.Generator | None, dtype) -> None:
        """As in BERT; tables that are as wide as the blocks have a matrix behind them all the same, as in its files."""
        super().build_embeddings(rng, dtype)
        c = self.config.n_embd
        if self.widen is None:
            self.widen = Linear(c, c, rng, self.config.initializer_range, dtype)

    def build_blocks(self, rng: np.random.Generator | None, dtype) -> list[Module]:
        """One block, n_layer times."""
        block = Block(self.config, rng, dtype)
        return [block] * self.config.n_layer

    @classmethod
    def least_size(cls, config: ALBERTConfig) -> int:
        """The numbers in its matrices: its tables, and those in the one block."""
        return super().least_size(dataclasses.replace(config, n_layer=1))


SIZES = {
    "nano": {"n_layer": 4, "n_head": 4, "n_embd": 128, "embedding_size": 32, "n_positions": 64},
    "mini": {"n_layer": 6, "n_head": 6, "n_embd": 384, "embedding_size": 64, "n_positions": 256},
    "base": {"n_layer": 12, "n_head": 12, "n_embd": 768, "embedding_size": 128, "n_positions": 512},
    "large": {"n_layer": 24, "n_head": 16, "n_embd": 1024, "embedding_size": 128, "n_positions": 512},
}


def covered_words_and_order(text: Tokenizer, rate: float) -> Objective:
    """ALBERT's two tasks: stretches of up to three tokens are covered, and half of the pairs are exchanged."""
    ids = text.ids
    return sentence_order(ids[MASK], text.vocab_size, ids[START], ids[DELIMITER], rate, n_grams())


CARD = encoder_card("albert", ALBERT, SIZES, objective=covered_words_and_order, loss_in_nats=False)

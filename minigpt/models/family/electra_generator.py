"""The small network of ELECTRA that fills in covered words, and the sizes and names of both (Clark et al. 2020)."""

import dataclasses
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from minigpt.models.family.bert import LAYERS, TABLES, BERTConfig
from minigpt.models.family.encoder import Encoder
from minigpt.models.family.forms import Form, Layout, at_places
from minigpt.nn import Linear

DISCRIMINATOR = {
    "words.dense": "discriminator_predictions.dense",
    "words.score": "discriminator_predictions.dense_prediction",
}
GENERATOR = {
    "words.dense": "generator_predictions.dense",
    "words.ln": "generator_predictions.LayerNorm",
    "words.bias": "generator_lm_head.bias",
}
CHOICES = Form(dense="sequence_summary.summary", act="gelu_exact", scores="classifier")

LAYOUT = Layout("Electra", "electra", TABLES | {"widen": "embeddings_project"}, LAYERS, "generator_lm_head", {
    "ForPreTraining": Form(words=DISCRIMINATOR),
    "ForMaskedLM": Form(words=GENERATOR),
    "ForSequenceClassification": Form(dense="classifier.dense", act="gelu_exact", scores="classifier.out_proj"),
    **at_places(CHOICES),
    "Model": Form(),
})  # fmt: skip
SIZES = {
    "nano": {"n_layer": 4, "n_head": 4, "n_embd": 128, "embedding_size": 128, "n_positions": 64, "generator_heads": 1},
    "mini": {"n_layer": 6, "n_head": 6, "n_embd": 384, "embedding_size": 384, "n_positions": 256, "generator_heads": 2},
    "small": {"n_layer": 12, "n_head": 4, "n_embd": 256, "embedding_size": 128, "generator_heads": 1},
    "base": {"n_layer": 12, "n_head": 12, "n_embd": 768, "embedding_size": 768, "generator_heads": 4},
    "large": {"n_layer": 24, "n_head": 16, "n_embd": 1024, "embedding_size": 1024, "generator_heads": 4},
}


@dataclass(frozen=True, kw_only=True)
class ELECTRAConfig(BERTConfig):
    """Sizes and rates; the defaults are those of ELECTRA-base.

    embedding_size: E, the width of the tables that both networks share. generator_heads: heads of the generator, each
    as large as one of the model; so they are its width too. head_act: the function in the generator's head; None: that
    of the blocks. In published models it is the exact GELU.
    """

    architecture: ClassVar[str] = "ElectraForPreTraining"
    layout: ClassVar[Layout | None] = LAYOUT
    left_out: ClassVar[dict[str, Any]] = BERTConfig.left_out | {
        "embedding_size": 128, "intermediate_size": 1024, "head_act": "gelu",
    }  # fmt: skip

    model_type: str = "electra"
    embedding_size: int = 768
    head_act: str | None = None
    generator_heads: int = 4

    def __post_init__(self):
        super().__post_init__()
        self._check_size("generator_heads")

    @property
    def of_generator(self) -> "ELECTRAConfig":
        """The generator's configuration: fewer heads of the same size, as many layers."""
        head_size = self.n_embd // self.n_head
        width = self.generator_heads * head_size
        return dataclasses.replace(
            self, n_head=self.generator_heads, n_embd=width, n_inner=None, form="ForMaskedLM", tie_word_embeddings=True
        )


class Generator(Encoder):
    """The network that fills in covered words. Its tables are those of the model that it is made for."""

    Config = ELECTRAConfig

    def __init__(self, of_model: Encoder, seed: int | None, dtype):
        self.of_model = (of_model,)  # in a tuple: a generator does not own the model that it belongs to
        super().__init__(of_model.config.of_generator, seed, dtype)

    def build_embeddings(self, rng: np.random.Generator | None, dtype) -> None:
        """The tables of the model, and a matrix of its own behind them where the widths differ."""
        (model,) = self.of_model
        config = self.config
        self.tokens_embed = model.tokens_embed
        self.positions_embed = model.positions_embed
        self.segments_embed = model.segments_embed
        self.ln_embed = model.ln_embed
        same = config.table_width == config.n_embd
        self.widen = None if same else Linear(config.table_width, config.n_embd, rng, config.initializer_range, dtype)

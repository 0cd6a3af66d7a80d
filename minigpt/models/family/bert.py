"""BERT (Devlin, Chang, Lee and Toutanova 2019): GPT-1's blocks, and every position sees both sides.

It learns two tasks at once: to tell the words that are covered, and whether a second sentence follows the first
(section 3.1).
"""

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from minigpt.data.input_transformations import DELIMITER, START
from minigpt.data.objectives import Objective, sentence_pairs, whole_words
from minigpt.data.objectives.covering import Places
from minigpt.models.card import Aim
from minigpt.models.family.encoder import MASK, MASK_RATE, SMALL, PairEncoder, encoder_card
from minigpt.models.family.forms import WITHOUT, Form, Layout, at_places, in_layers
from minigpt.models.family.published import PublishedConfig
from minigpt.tokenizer import Tokenizer
from minigpt.tokenizer.bpe import END_OF_WORD

TABLES = {  # modules beside the blocks -> in the body of Hugging Face's BERT
    "tokens_embed": "embeddings.word_embeddings",
    "positions_embed": "embeddings.position_embeddings",
    "segments_embed": "embeddings.token_type_embeddings",
    "ln_embed": "embeddings.LayerNorm",
}
BLOCK = {  # modules of a block here -> in one of its layers
    "attn.c_attn": ["attention.self.query", "attention.self.key", "attention.self.value"],
    "attn.c_proj": "attention.output.dense",
    "ln_1": "attention.output.LayerNorm",
    "mlp.c_fc": "intermediate.dense",
    "mlp.c_proj": "output.dense",
    "ln_2": "output.LayerNorm",
}
LAYERS = in_layers("encoder.layer.{}", BLOCK)
WORDS = {
    "words.dense": "cls.predictions.transform.dense",
    "words.ln": "cls.predictions.transform.LayerNorm",
    "words.bias": "cls.predictions.bias",
}
POOLER = Form(dense="bert.pooler.dense")
LABELS = POOLER._replace(scores="classifier")

LAYOUT = Layout("Bert", "bert", TABLES, LAYERS, "cls.predictions.decoder", {
    "ForPreTraining": POOLER._replace(words=WORDS, scores="cls.seq_relationship", n=2),
    "ForMaskedLM": Form(words=WORDS),
    "ForNextSentencePrediction": POOLER._replace(scores="cls.seq_relationship", n=2),
    "ForSequenceClassification": LABELS,
    **at_places(LABELS),
    "Model": POOLER,
    f"Model{WITHOUT}": Form(),
})  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class BERTConfig(PublishedConfig):
    """Sizes and rates; the defaults are those of BERT-base. In a config.json they have Hugging Face's keys for BERT."""

    keys: ClassVar[dict[str, str]] = {
        "n_positions": "max_position_embeddings",
        "n_segments": "type_vocab_size",
        "n_embd": "hidden_size",
        "n_layer": "num_hidden_layers",
        "n_head": "num_attention_heads",
        "resid_pdrop": "hidden_dropout_prob",
        "attn_pdrop": "attention_probs_dropout_prob",
        "layer_norm_epsilon": "layer_norm_eps",
    }
    architecture: ClassVar[str] = "BertForPreTraining"
    left_out: ClassVar[dict[str, Any]] = {"hidden_act": "gelu", "intermediate_size": 3072}
    layout: ClassVar[Layout | None] = LAYOUT

    model_type: str = "bert"
    vocab_size: int = 30522
    n_positions: int = 512
    n_embd: int = 768
    n_layer: int = 12
    n_head: int = 12
    n_segments: int = 2


class BERT(PairEncoder):
    """The encoder of BERT with both heads of its pre-training, or those of its file. seed: as for GPT1."""

    Config = BERTConfig


SIZES = SMALL | {
    "base": {"n_layer": 12, "n_head": 12, "n_embd": 768, "n_positions": 512},
    "large": {"n_layer": 24, "n_head": 16, "n_embd": 1024, "n_positions": 512},
}


def covered_words_and_pairs(text: Tokenizer, rate: float) -> Objective:
    """BERT's two tasks: some tokens are covered, and half of the second parts do not follow the first.

    The token that begins a text stands for [CLS], the delimiter for [SEP].
    """
    return pairs_with(text, rate, None)


def whole_words_and_pairs(text: Tokenizer, rate: float) -> Objective:
    """The same, where all tokens of a word are covered or none (BERT's release of May 2019)."""
    ends_word = np.array([token.endswith(END_OF_WORD) for token in text.tokens])
    return pairs_with(text, rate, whole_words(ends_word))


def pairs_with(text: Tokenizer, rate: float, places: Places | None) -> Objective:
    """BERT's two tasks for this vocabulary. places: which tokens are covered; None: each is drawn for itself."""
    ids = text.ids
    return sentence_pairs(ids[MASK], text.vocab_size, ids[START], ids[DELIMITER], rate, places)


CARD = encoder_card(
    "bert", BERT, SIZES,
    objective=covered_words_and_pairs,
    loss_in_nats=False,
    other_aims=(Aim("whole-words", whole_words_and_pairs, MASK_RATE),),
)

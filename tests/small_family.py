"""A small model of every kind in the registry, with a tokenizer that fits it."""

import numpy as np

from minigpt import models
from minigpt.models.language_model import LanguageModel
from minigpt.tokenizer import CharTokenizer, GPT1Tokenizer, GPT2Tokenizer, Tokenizer

TEXT = "the cat sat on the mat . the dog saw the cat . "
SIZES = {"n_positions": 16, "n_embd": 8, "n_layer": 2, "n_head": 2}
OWN = {"lstm": {"n_layer": 1, "n_head": 1}, "albert": {"embedding_size": 4},
       "electra": {"embedding_size": 4, "generator_heads": 1},
       "elmo": {"n_head": 1, "n_hidden": 8}, "deberta": {"n_distances": 4},
       "llama": {"n_kv_head": 1, "n_inner": 12}, "mistral": {"n_kv_head": 1, "n_inner": 12, "sliding_window": 3},
       "gpt_neox": {"rotary_share": 0.5}, "t5": {"d_kv": 4, "d_ff": 8, "n_buckets": 8, "max_distance": 16}}  # fmt: skip


def opened(name: str, kind=GPT1Tokenizer, special=None) -> tuple[LanguageModel, Tokenizer]:
    """A small model with moved weights, and its tokenizer."""
    card = models.card(name)
    sizes = {GPT1Tokenizer: [40], GPT2Tokenizer: [290], CharTokenizer: []}
    text = kind.train(TEXT * 3, *sizes[kind])
    text = text.with_special(list(card.special_tokens if special is None else special))
    settings = card.token_settings(text) if card.token_settings else {}
    model = card.model(card.model.Config(vocab_size=text.vocab_size, **SIZES | OWN.get(name, {}) | settings), seed=0)
    rng = np.random.default_rng(1)
    for parameter in model.parameters():
        parameter.data += 0.3 * rng.standard_normal(parameter.data.shape).astype(np.float32)
    return model, text

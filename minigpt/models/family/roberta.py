"""RoBERTa (Liu et al. 2019): BERT without its second task and without segments, covered anew each time.

What the paper changes beside it (longer training, larger batches, more text) are options of a run (section 4).
GELU has its tanh form everywhere. transformers has the exact one in the head: logits differ by about 0.0005.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import numpy as np

from minigpt.data.objectives import Objective, fixed
from minigpt.models.card import Aim, Card, as_wide_as_the_paper
from minigpt.models.family import published
from minigpt.models.family.bert import BLOCK, SIZES, BERTConfig, embeddings_of
from minigpt.models.family.encoder import MASK, MASK_RATE, Encoder, covered_words
from minigpt.nn.optim import AdamW
from minigpt.tokenizer import GPT2Tokenizer, Tokenizer

UNUSED = 2  # rows at the top of the published table of positions: it counts from the padding's id, 1


@dataclass(frozen=True, kw_only=True)
class RoBERTaConfig(BERTConfig):
    """Sizes and rates; the defaults are those of RoBERTa-base, without two rows of positions that no text uses.

    It has one segment: a vector that is added everywhere. A config.json counts two positions more than can be used, and
    a saved model has their rows, so that its count of parameters is the published one.
    """

    architecture: ClassVar[str] = "RobertaForMaskedLM"

    model_type: str = "roberta"
    vocab_size: int = 50265
    n_segments: int = 1
    layer_norm_epsilon: float = 1e-5

    @classmethod
    def from_dict(cls, values: dict) -> "RoBERTaConfig":
        """From a config.json. Raises InputError as BERT's does."""
        key = cls.keys["n_positions"]
        if isinstance(values.get(key), int):
            values = values | {key: values[key] - UNUSED}
        return super().from_dict(values)

    def to_dict(self) -> dict:
        """For a config.json."""
        values = super().to_dict()
        values[self.keys["n_positions"]] += UNUSED
        return values


class RoBERTa(Encoder):
    """The encoder of RoBERTa with the head of its pre-training. seed: as for GPT1."""

    Config = RoBERTaConfig

    def published_names(self) -> published.Names:
        """Those of RobertaForMaskedLM; the head that is stored again is left out."""
        pairs = embeddings_of("roberta")
        for i in range(self.config.n_layer):
            pairs += published.of_block(f"h.{i}", f"roberta.encoder.layer.{i}", BLOCK)
        pairs += [("words.dense", ["lm_head.dense"]), ("words.ln", ["lm_head.layer_norm"])]
        return published.of_modules(pairs) | {"words.bias": ["lm_head.bias"]}

    def to_published(self, tensors: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
        """With the rows of positions that are not used, zeros."""
        names = super().to_published(tensors)
        (key,) = self.published_names()["positions_embed.weight"]
        names[key] = np.pad(names[key], ((UNUSED, 0), (0, 0)))
        return names

    def from_published(self, tensors: dict[str, np.ndarray], folder: Path) -> dict[str, np.ndarray]:
        """Without these rows. Raises InputError for a tensor that is missing."""
        plain = super().from_published(tensors, folder)
        plain["positions_embed.weight"] = plain["positions_embed.weight"][UNUSED:]
        return plain


def words_covered_once(text: Tokenizer, rate: float) -> Objective:
    """The same tokens of a text are covered each time it is seen, as in BERT's data (section 4.1, static masking)."""
    return fixed(covered_words(text, rate))


CARD = Card(
    "roberta",
    RoBERTa,
    SIZES,
    usual_size="base",
    tokenizer=GPT2Tokenizer,
    optimizer=AdamW,
    objective=covered_words,
    special_tokens=(MASK,),
    init_std=as_wide_as_the_paper,
    mask_rate=MASK_RATE,
    other_aims=(Aim("fixed", words_covered_once, MASK_RATE),),
    differs="the published models, 124,697,433 (base) and 355,412,057 (large), have two more rows of positions, which "
    "no text uses: a saved model has them too",
)

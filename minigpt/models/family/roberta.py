"""RoBERTa (Liu et al. 2019): BERT without its second task and without segments, covered anew each time.

What the paper changes beside it (longer training, larger batches, more text) are options of a run (section 4).
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Self

import numpy as np

from minigpt.data.objectives import Objective, fixed
from minigpt.device.arrays import Array
from minigpt.errors import InputError
from minigpt.models.card import Aim
from minigpt.models.family import bert
from minigpt.models.family.bert import BERTConfig
from minigpt.models.family.encoder import MASK_RATE, Encoder, covered_words, encoder_card
from minigpt.models.family.forms import WITHOUT, Form, Layout, at_places
from minigpt.tokenizer import GPT2Tokenizer, Tokenizer

EARLIER_ROWS = 2  # rows before the first position in files of earlier versions, which know no padding


WORDS = {"words.dense": "lm_head.dense", "words.ln": "lm_head.layer_norm", "words.bias": "lm_head.bias"}
POOLER = Form(dense="roberta.pooler.dense")

LAYOUT = Layout("Roberta", "roberta", bert.TABLES, bert.LAYERS, "lm_head.decoder", {
    "ForMaskedLM": Form(words=WORDS),
    "ForSequenceClassification": Form(dense="classifier.dense", scores="classifier.out_proj"),
    **at_places(POOLER._replace(scores="classifier")),
    "Model": POOLER,
    f"Model{WITHOUT}": Form(),
})  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class RoBERTaConfig(BERTConfig):
    """Sizes and rates; the defaults are those of RoBERTa-base, where no token is padding. It has one segment.

    XLM-R and CamemBERT are RoBERTas of other languages, and are saved as such.

    pad_token_id: P. The table of positions begins with P + 1 rows: padding has row P, and the first token of a text row
    P + 1. A config.json counts all of them, so that the published models, whose padding is 1, have 514 rows for texts
    of 512. head_act: the function in the head, which in transformers is the exact GELU whatever that of the blocks.
    Without padding the first token has row 0, and a config.json says -1, an id that no token has.
    """

    architecture: ClassVar[str] = "RobertaForMaskedLM"
    layout: ClassVar[Layout | None] = LAYOUT
    other_types: ClassVar[tuple[str, ...]] = ("xlm-roberta", "camembert")
    has_padding: ClassVar[bool] = True
    left_out: ClassVar[dict[str, Any]] = BERTConfig.left_out | {
        "pad_token_id": 1, "type_vocab_size": 2, "layer_norm_eps": 1e-12, "head_act": "gelu",
    }  # fmt: skip

    model_type: str = "roberta"
    vocab_size: int = 50265
    n_segments: int = 1
    layer_norm_epsilon: float = 1e-5
    head_act: str = "gelu"

    @property
    def first_row(self) -> int:
        """The row of the first token of a text in the table of positions."""
        return 0 if self.pad_token_id is None else self.pad_token_id + 1

    @property
    def position_rows(self) -> int:
        """Those before the first token too."""
        return self.first_row + self.n_positions

    @classmethod
    def from_dict(cls, values: dict) -> Self:
        """From a config.json. Raises InputError as BERT's does, and for a table without a row for any token."""
        values = {"head_act": values.get("hidden_act", cls.hidden_act)} | values  # in files of earlier versions
        key = cls.keys["n_positions"]
        rows = values.get(key)
        pad = values.get("pad_token_id")
        before = pad + 1 if isinstance(pad, int) else EARLIER_ROWS
        if isinstance(rows, int):
            if rows <= before:
                raise InputError(f"config.json has {key} {rows!r} and pad_token_id {pad!r}: no row is left for a token")
            values = values | {key: rows - before}
        return super().from_dict(values)

    def to_dict(self) -> dict:
        """For a config.json."""
        return super().to_dict() | {self.keys["n_positions"]: self.position_rows}


class RoBERTa(Encoder):
    """The encoder of RoBERTa with the head of its pre-training, or those of its file. seed: as for GPT1."""

    Config = RoBERTaConfig

    def place(self, ids: Array, past=None, positions: Array | None = None) -> tuple[Array, Array]:
        """As `LanguageModel.place`, and the rows of the table at which these positions are, (T,) or (B,T).

        Where no positions are given, padding has none, and is not counted.
        """
        counted = positions is None
        ids, positions = super().place(ids, past, positions)
        pad = self.config.pad_token_id
        if pad is None or not counted:
            return ids, positions + self.config.first_row
        is_text = ids != pad
        return ids, is_text.cumsum(axis=1) * is_text + pad

    def from_published(self, tensors: dict[str, np.ndarray], folder: Path) -> dict[str, np.ndarray]:
        """The other way round, without the rows of positions that earlier versions wrote before the first one.

        Raises InputError for a tensor that is missing.
        """
        plain = super().from_published(tensors, folder)
        table = plain["positions_embed.weight"]
        if self.config.pad_token_id is None and len(table) == self.config.n_positions + EARLIER_ROWS:
            plain["positions_embed.weight"] = table[EARLIER_ROWS:]
        return plain


def words_covered_once(text: Tokenizer, rate: float) -> Objective:
    """The same tokens of a text are covered each time it is seen, as in BERT's data (section 4.1, static masking)."""
    return fixed(covered_words(text, rate))


OF_BERT = bert.SIZES
PADDED = {"pad_token_id": 1}  # the padding of the published vocabulary

SIZES = OF_BERT | {"base": OF_BERT["base"] | PADDED, "large": OF_BERT["large"] | PADDED}


def token_settings(text: Tokenizer) -> dict[str, None]:
    """No padding: its id would be the last one of the vocabulary, and cost a row for each token before it."""
    return {"pad_token_id": None}


CARD = encoder_card(
    "roberta", RoBERTa, SIZES,
    tokenizer=GPT2Tokenizer,
    token_settings=token_settings,
    other_aims=(Aim("fixed", words_covered_once, MASK_RATE),),
)

"""MASS (Song, Tan, Qin, Lu and Liu 2019): the encoder reads a text without a fragment, the decoder writes the fragment.

The model is the encoder-decoder of Vaswani et al. (2017) with GPT-1's blocks. What is new is what it learns: whatever
the encoder sees, the decoder does not, so it has to read (section 3.2). A fragment of one token is BERT's task, one
that is the whole text is GPT's.
"""

from dataclasses import dataclass
from typing import ClassVar

from minigpt.data.objectives import Objective, lost_fragment
from minigpt.models.family import translation
from minigpt.models.family.encoder import MASK
from minigpt.models.family.encoder_decoder import (
    END,
    PAD,
    SMALL,
    EncoderDecoder,
    EncoderDecoderConfig,
    encoder_decoder_card,
)
from minigpt.tokenizer import Tokenizer


@dataclass(frozen=True, kw_only=True)
class MASSConfig(EncoderDecoderConfig):
    """Sizes and rates; the defaults are the paper's (section 4.1), but the size of the vocabulary, which is BART's.

    In a config.json they have the keys of BART.
    """

    architecture: ClassVar[str] = "MASS"

    model_type: str = "mass"
    n_embd: int = 1024
    n_layer: int = 6
    n_head: int = 8
    n_positions: int = 512


class MASS(EncoderDecoder):
    """The encoder and the decoder of MASS. seed: as for GPT1. transformers has no such model: only this library opens
    its files.
    """

    Config = MASSConfig


SIZES = SMALL | {"paper": {"n_layer": 6, "n_head": 8, "n_embd": 1024, "n_positions": 512}}


def fragment(text: Tokenizer, rate: float) -> Objective:
    """MASS's objective for this vocabulary: the fragment is half of the text (section 3.2)."""
    return lost_fragment(text.ids[MASK], text.vocab_size, rate)


CARD = encoder_decoder_card(
    "mass", MASS, SIZES, MASK,  # a decoder starts with the mask, as in figure 1
    usual_size="paper",
    objective=fragment,
    special_tokens=(PAD, END, MASK),
    mask_rate=0.5,
    other_aims=(translation.writing(MASK),),
    differs="the paper tells of 6 layers of 1,024 on each side: the vocabulary here has the size of BART's, and no "
    "count of parameters was published",
)

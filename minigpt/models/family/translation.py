"""Translation as an aim of a model: texts whose lines are `sentence = its translation`, such as `--data pairs:N`."""

from collections.abc import Callable

from minigpt.data.objectives import Objective, covered_translations, translated
from minigpt.errors import InputError
from minigpt.models.card import Aim
from minigpt.models.family.encoder import MASK, MASK_RATE
from minigpt.models.family.encoder_decoder import END, PAD
from minigpt.tokenizer import Tokenizer

SEPARATOR = "="  # between a sentence and its translation


def marks(text: Tokenizer) -> tuple[int, int]:
    """The tokens of the separator and of the line end. Raises InputError for a vocabulary that lacks one of them."""
    spaced = text.encode(f" {SEPARATOR}")
    line_end = text.newline_id
    if line_end is None or not spaced or SEPARATOR not in text.decode(spaced[-1:]):
        raise InputError(
            f"--objective translation: the vocabulary has no token for {SEPARATOR!r}, or none for the end of a line: "
            "give a text of lines such as --data pairs:2000"
        )
    return spaced[-1], line_end


def written_after(start: str) -> Callable[[Tokenizer], Objective]:
    """Read a sentence, and write its translation. start: the token with which the decoder of this model starts."""

    def objective(text: Tokenizer) -> Objective:
        return translated(*marks(text), text.ids[start], text.ids[END], text.ids[PAD])

    return objective


def covered_pairs(text: Tokenizer, rate: float) -> Objective:
    """Tell covered words of a sentence and of its translation (XLM section 3.4)."""
    return covered_translations(text.ids[MASK], text.vocab_size, *marks(text), rate)


def writing(start: str) -> Aim:
    """The aim of an encoder-decoder whose decoder starts with this token."""
    return Aim("translation", written_after(start))


COVERING = Aim("translation", covered_pairs, MASK_RATE)

"""What BART learns to undo: the five kinds of noise of section 2.2, and two of them together (Lewis et al. 2020)."""

from collections.abc import Callable

from minigpt.data.input_transformations import START
from minigpt.data.objectives import (
    Objective,
    document_rotation,
    one_after_the_other,
    restored,
    sentence_permutation,
    text_infilling,
    token_deletion,
    token_masking,
)
from minigpt.data.objectives.restoring import Noise
from minigpt.models.card import Aim
from minigpt.models.family.encoder import MASK
from minigpt.models.family.encoder_decoder import END, PAD
from minigpt.tokenizer import Tokenizer


def restored_after(noise: Callable[..., Noise]) -> Callable[..., Objective]:
    """The objective, given a vocabulary, of writing a whole text from a source with this noise.

    noise: a function of the vocabulary, and, where it hides tokens, of the share of them.
    """

    def objective(text: Tokenizer, *rate: float) -> Objective:
        return restored(noise(text, *rate), text.ids[START], text.ids[END], text.ids[PAD])

    return objective


def infilled(text: Tokenizer, rate: float) -> Noise:
    """Each span becomes one mask, however long it is."""
    return text_infilling(text.ids[MASK], rate)


def permuted(text: Tokenizer) -> Noise:
    """Sentences change places: they end with the tokens whose text ends with a full stop, or the like."""
    ends = [i for i in range(text.vocab_size) if text.decode([i]).rstrip().endswith((".", "!", "?"))]
    return sentence_permutation(ends)


def infilled_and_permuted(text: Tokenizer, rate: float) -> Noise:
    """Both, one after the other: the choice of section 5."""
    return one_after_the_other(infilled(text, rate), permuted(text))


NOISES = (  # the five of section 2.2, each alone
    Aim("masking", restored_after(lambda text, rate: token_masking(text.ids[MASK], rate)), 0.3),
    Aim("deletion", restored_after(lambda text, rate: token_deletion(rate)), 0.3),
    Aim("infilling", restored_after(infilled), 0.3),
    Aim("permutation", restored_after(permuted)),
    Aim("rotation", restored_after(lambda text: document_rotation())),
)

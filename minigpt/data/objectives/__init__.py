"""Objectives: what a model learns to predict, as values.

An objective is a pure function `(ids, rng) -> Batch`:

    ids (B,T+1) int     windows of a text, as they come: one token more than the model sees
    rng                 all chance comes from here: the same ids and the same seed give the same batch

It never writes to ids. NumPy only; the caller moves the batch to the device of the model.

batch       what an objective gives, and the simplest one: predict the next token
both_directions  predict the next token, and the one before
covering    tell what stood at covered places
ends        texts that begin and end with a token of their own
sentences   tell whether two sentences belong together
permutation predict tokens in any sequence
restoring   write the text that a source has lost, for an encoder-decoder
translating write what a source says in other words, for the same
responses   write the response to an instruction, which is not learned itself
"""

from minigpt.data.objectives.batch import Batch, Objective, causal
from minigpt.data.objectives.both_directions import both_directions
from minigpt.data.objectives.covering import fixed, masked, n_grams, spans, whole_words
from minigpt.data.objectives.ends import between
from minigpt.data.objectives.permutation import permuted
from minigpt.data.objectives.responses import responses
from minigpt.data.objectives.restoring import (
    document_rotation,
    lost_fragment,
    lost_spans,
    one_after_the_other,
    restored,
    sentence_permutation,
    text_infilling,
    token_deletion,
    token_masking,
)
from minigpt.data.objectives.sentences import sentence_order, sentence_pairs
from minigpt.data.objectives.translating import covered_translations, paired, translated

__all__ = [
    "Batch", "Objective", "between", "both_directions", "causal", "covered_translations", "document_rotation", "fixed",
    "lost_fragment", "lost_spans", "masked", "n_grams", "one_after_the_other", "paired", "permuted", "responses",
    "restored",
    "sentence_order", "sentence_pairs", "sentence_permutation", "spans", "text_infilling", "token_deletion",
    "token_masking", "translated", "whole_words",
]  # fmt: skip

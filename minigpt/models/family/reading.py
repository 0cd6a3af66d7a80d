"""A decoder together with the states of one source, which is a causal language model."""

from collections.abc import Iterator
from typing import Any

import numpy as np

from minigpt.device.arrays import Array
from minigpt.errors import InputError
from minigpt.models import generation
from minigpt.models.family.cross_attention import DecoderPast
from minigpt.models.language_model import LanguageModel


class Reading:
    """A decoder beside one source, or beside one for each row: a causal language model, which can generate.

    The source is read once: each layer's keys and values of it are computed here, and every past holds them.
    model: an `EncoderDecoder`.
    """

    def __init__(self, model, source: Array, source_mask: Array | None):
        self.model = model
        self.config = model.config
        self.device = model.device
        self.exact = model.exact
        self.named_parameters = model.named_parameters
        with model.exact():
            states = model.encode(source, source_mask)
            self.kv = [block.crossattention.keys_and_values(states) for block in model.h]
        self.source_mask = model.place_source_mask(source_mask, source)

    def __repr__(self) -> str:
        n, length, _ = self.kv[0].shape
        return f"Reading({type(self.model).__name__} beside {n} sources of {length} tokens)"

    def new_past(self, capacity: int | None = None, padding: np.ndarray | None = None) -> list[DecoderPast]:
        """As `LanguageModel.new_past`; with the source in it."""
        pasts = LanguageModel.new_past(self.model, capacity, padding)
        both = zip(pasts, self.kv, strict=True)
        return [DecoderPast(past.capacity, past.padding, kv, self.source_mask) for past, kv in both]

    def next_logits(self, ids: Array, past: list[DecoderPast]) -> Array:
        """ids (B,T) int -> logits (B,V) of the token that follows; past: of `new_past`, to which the ids are added

        Raises InputError for another number of rows than there are sources, unless there is one source.
        """
        n_sources = len(self.kv[0])
        if n_sources not in (1, len(ids)):
            raise InputError(f"there are {n_sources} sources for {len(ids)} rows of ids: give one, or one for each row")
        return self.model.next_logits(ids, past)

    def token_step(self, past: list[DecoderPast]) -> str:
        """As `LanguageModel.token_step`: why there is no quicker step."""
        return "a decoder beside a source has no quicker step"

    def generate(self, ids: Any, n_tokens: int, **options) -> np.ndarray | list[np.ndarray]:
        """ids (B,T) -> (B,T+N): what the decoder begins with, and what follows. See `generation.generate`."""
        return generation.generate(self, ids, n_tokens, **options)

    def stream(self, ids: Any, n_tokens: int, **options) -> Iterator[np.ndarray]:
        """Yields the next token of each row, (B,) int, n_tokens times. See `generation.stream`."""
        return generation.stream(self, ids, n_tokens, **options)

"""What a language model is to a task: how it reads whole texts, where a head finds what it has read, what is kept.

A `Classifier` puts a head on such a body; `transfer` takes some of its layers over.
"""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from minigpt.device.arrays import Array, array_module, to_device
from minigpt.nn import Cache, Module


class TaskBody(Module):
    """The part of a language model that tasks use. It reads from left to right; what sees both sides says what differs.

    config, h: as of every model. n_segments: how many kinds of segments it tells apart. device: where it computes.
    hidden: see `LanguageModel`.
    """

    config: Any
    h: Sequence[Module]
    device: str
    n_segments: int
    hidden: Callable[..., tuple[Array, Cache]]

    def inputs_of(self, ids: Array, lengths: Array, delimiter: int | None = None) -> dict[str, Array]:
        """What `hidden` needs beside ids (N,T) that are filled up at the right: of a model that sees the left, nothing.

        lengths (N,) int: how many of them are text. delimiter: the token between two texts, where there is one.
        """
        return {}

    def inputs_of_segments(self, segments: np.ndarray) -> dict[str, Array]:
        """segments (N,T) int, as a tokenizer gives them -> what `hidden` is given of them: nothing where all are 0."""
        return {"segments": segments} if self.n_segments > 1 and segments.any() else {}

    def states(self, ids: Array, lengths: Array, **inputs) -> Array:
        """ids (N,T) int, filled up at the right, lengths (N,) int -> h (N,T,C), hidden states of whole texts

        inputs: segments (N,T), of an encoder that has them. Nothing is kept for a backward. What stands behind the end
        of a text means nothing.
        """
        ids = to_device(ids, self.device)
        inputs = self.inputs_of(ids, to_device(lengths, self.device)) | inputs
        h, _ = self.hidden(ids, grad=False, **inputs)
        return h

    @property
    def state_width(self) -> int:
        """Of a state of `hidden`, which the head of a task reads: C."""
        return self.config.n_embd

    def place_of_state(self, lengths: Array) -> Array:
        """lengths (N,) int -> (N,) int: where the state stands that has seen the whole sequence: at the last token"""
        return lengths - 1

    def summary(self, h: Array, lengths: Array) -> Array:
        """h (N,T,C), lengths (N,) int -> (N,C), the state that has seen the whole sequence: what a head reads"""
        rows = array_module(h).arange(len(h))
        return h[rows, self.place_of_state(lengths)]

    def summary_backward(self, dstates: Array, shape: tuple[int, ...], lengths: Array) -> Array:
        """dstates (N,C) -> dh (N,T,C), of this shape, which is 0 except where a state was read"""
        xp = array_module(dstates)
        dh = xp.zeros(shape, dstates.dtype)
        dh[xp.arange(len(dh)), self.place_of_state(lengths)] = dstates
        return dh

    def frozen_backward(self, dh: Array, cache: Cache) -> None:
        """dh (N,T,C) -> nothing: what learns of a model that a task leaves as it is. Here nothing does."""
        self.own(cache).clear()

    def learned_when_frozen(self) -> tuple[Module, ...]:
        """The modules that belong to a task, and learn although the model stays as it is: none."""
        return ()

    def layers_of(self, name: str) -> int:
        """How many layers must be taken over for this parameter to be among them: 0 for what stands before them."""
        if name.startswith("h."):
            _, number, _ = name.split(".", 2)
            return int(number) + 1
        for other, _ in self.named_parameters():
            if other == name:
                return 0
            if other.startswith("h."):
                break
        return len(self.h)

"""The step of a model that generates text: it reads one more token of each text, and gives the logits of the next one.

For a single token a fast GPU has less work than Python. GPT-2 small makes about 150 launches for it, products included
(counted: benchmarks/host_cost.py). That takes Python some milliseconds. To read all weights would take an H200 a tenth
of a millisecond (computed from its data sheet). So on a GPU the step is recorded as a CUDA graph, and repeated by one
launch for each token. A graph repeats the same work on the same memory. So the past has its whole capacity from the
start. How much of it is filled is a number on the GPU: a mask and the new positions are computed from it.
"""

import contextlib
from collections.abc import Callable

import numpy as np

from minigpt import ops
from minigpt.device.arrays import Array, array_module
from minigpt.models.mixed_precision import without_copies
from minigpt.nn import Past
from minigpt.ops.cuda.cuda_graph import Recorded

LEAST = 16  # tokens after the first: for fewer a step is not recorded, since that takes as long as several steps


def step(model, past: list, n_tokens: int) -> Callable[[np.ndarray], Array]:
    """A function of ids (B,T), the tokens of each text that were not read yet -> logits (B,V) of the next token.

    model: has next_logits. past: from its new_past, still empty; each call stores the keys and values of its tokens.
    n_tokens: how many tokens there may be, at most, after those of the first call.
    """
    parameters = [parameter for _, parameter in model.named_parameters()]  # found once, and not for each token

    def plain(ids: np.ndarray) -> Array:
        with without_copies(parameters):
            if ids.shape[1] > 1:
                return model.next_logits(ids, past)
            with ops.repeating(plain):
                return model.next_logits(ids, past)

    of_keys_and_values = all(type(one) is Past for one in past)  # a graph would not update anything else
    if model.device == "cuda" and of_keys_and_values and n_tokens >= LEAST:
        return RecordedStep(model, past, plain)
    quick = model.token_step(past) if n_tokens else ""
    if isinstance(quick, str):
        return plain
    return lambda ids: quick(ids) if quick.takes(ids) else plain(ids)


class RecordedStep:
    """A step of one token for each text, repeated as a CUDA graph. The first call and longer ones are not recorded."""

    def __init__(self, model, past: list[Past], plain: Callable[[np.ndarray], Array]):
        self.model = model
        self.past = past
        self.plain = plain
        self.repeated = Recorded(self._logits)

    def __call__(self, ids: np.ndarray) -> Array:
        """ids (B,T) -> logits (B,V), which the next call overwrites"""
        length = self.past[0].length
        if length == 0 or ids.shape[1] > 1:
            return self.plain(ids)
        is_recorded_now = self.repeated.graph is None  # a graph keeps the addresses of the weights
        with self.model.exact() if is_recorded_now else contextlib.nullcontext():
            logits = self.repeated(ids, np.array([length]))
        for one in self.past:
            one.length = length + 1
        return logits

    def _logits(self, ids: Array, length: Array) -> Array:
        """ids (B,1), length (1,) int: how much of the past is filled -> logits (B,V). This function is recorded."""
        xp = array_module(ids)
        capacity = self.past[0].capacity
        key = xp.arange(capacity + 1)  # each place of the past, filled or not, and the new position
        mask = (key < length) | (key == capacity)
        positions = length
        padding = self.past[0].padding
        if padding is not None:
            mask = mask & (key >= padding[:, None, None, None])
            positions = xp.maximum(length - padding[:, None], 0)
        past = [WholePast(one, length) for one in self.past]
        return self.model.next_logits(ids, past, mask=mask, positions=positions)


class WholePast(Past):
    """The same arrays as a Past, in their whole capacity. Attention to them needs a mask.

    filled (1,) int, on the GPU: how many of their positions are filled.
    """

    def __init__(self, past: Past, filled: Array):
        super().__init__(past.capacity, past.padding)
        self.k = past.k
        self.v = past.v
        self.filled = filled

    def read(self) -> tuple[Array, Array]:
        """(k, v), each (B,NH,capacity,D)."""
        return self.k, self.v

    def extend(self, k: Array, v: Array) -> None:
        """Store k, v (B,NH,1,D) behind what is filled."""
        self.k[:, :, self.filled] = k
        self.v[:, :, self.filled] = v

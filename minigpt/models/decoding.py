"""The step of a model that writes: one more token for each text is read, and the scores of the next one come out.

For a single token a GPU has less to do than Python has to order: GPT-2 small asks for some 150 kernels, which takes
Python milliseconds, and all weights are read in a tenth of one. So on a GPU the step is recorded as a CUDA graph and
then repeated: one order for each token. What is recorded does the same to the same memory every time. So the past has
all its room from the start, and how much of it is filled is a number on the GPU, which a mask and the new positions are
computed from.
"""

from collections.abc import Callable

import numpy as np

from minigpt.device.arrays import Array, array_module
from minigpt.models.mixed_precision import without_copies
from minigpt.nn import Past
from minigpt.ops.cuda.cuda_graph import Recorded

LEAST = 16  # tokens for which a step is recorded: that takes as long as several steps


def step(model, past: list, n_tokens: int) -> Callable[[np.ndarray], Array]:
    """A function of ids (B,T), the tokens of each text that were not read yet -> logits (B,V) of what follows.

    model: has next_logits. past: of its new_past, in which nothing is stored yet; each call stores what it reads.
    n_tokens: how many there may be after those of the first call.
    """
    parameters = [parameter for _, parameter in model.named_parameters()]  # found once, and not for each token

    def plain(ids: np.ndarray) -> Array:
        with without_copies(parameters):
            return model.next_logits(ids, past)

    of_keys_and_values = all(type(one) is Past for one in past)  # nothing else, of which the graph would know nothing
    if model.device == "cuda" and of_keys_and_values and n_tokens >= LEAST:
        return RecordedStep(model, past, plain)
    return plain


class RecordedStep:
    """A step that is repeated as a CUDA graph, for one token of each text; whatever comes first is read as usual."""

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
        if self.repeated.graph is None:
            with self.model.exact():  # a graph knows where the weights are
                logits = self.repeated(ids, np.array([length]))
        else:
            logits = self.repeated(ids, np.array([length]))
        for one in self.past:
            one.length = length + 1
        return logits

    def _logits(self, ids: Array, length: Array) -> Array:
        """ids (B,1), length (1,) int: how much of the past is filled -> logits (B,V). What is recorded."""
        xp = array_module(ids)
        capacity = self.past[0].capacity
        key = xp.arange(capacity + 1)  # the room of the past, and the new position itself
        mask = (key < length) | (key == capacity)
        positions = length
        padding = self.past[0].padding
        if padding is not None:
            mask = mask & (key >= padding[:, None, None, None])
            positions = xp.maximum(length - padding[:, None], 0)
        past = [WholePast(one, length) for one in self.past]
        return self.model.next_logits(ids, past, mask=mask, positions=positions)


class WholePast(Past):
    """The same arrays as a Past, with all their room; `filled` (1,) int is a number on the GPU.

    It tells how much of them is filled. Who attends to them needs a mask.
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

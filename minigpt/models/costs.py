"""What a model costs before it runs: parameters, bytes, floating-point operations."""

import dataclasses
import math
from typing import NamedTuple

import numpy as np

from minigpt import ops
from minigpt.models.language_model import Config, LanguageModel


class Memory(NamedTuple):
    """Bytes of a training step."""

    weights: int
    gradients: int
    moments: int
    activations: int

    @property
    def total(self) -> int:
        return sum(self)


def shapes(model_class: type[LanguageModel], config: Config) -> dict[str, tuple[int, ...]]:
    """Every parameter's name and shape. Zeros that nobody touches take no memory, so any size can be asked."""
    model = model_class(config, seed=None)
    return {name: parameter.data.shape for name, parameter in model.named_parameters()}


def count(model_class: type[LanguageModel], config: Config) -> int:
    """The number of parameters; the tied head counts once."""
    return sum(math.prod(shape) for shape in shapes(model_class, config).values())


def memory(
    model_class: type[LanguageModel], config: Config, batch: int, checkpoint_blocks: bool = False, low: bool = False
) -> Memory:
    """Bytes for weights, gradients, Adam's two moments, and what a forward pass of (batch, context) keeps.

    All in float32; or, low, with a copy of the weights in bfloat16, and with what is kept in bfloat16.
    """
    kept = activations(model_class, config, batch, config.n_positions, checkpoint_blocks)
    tensors = count(model_class, config)
    return Memory((6 if low else 4) * tensors, 4 * tensors, 8 * tensors, kept // 2 if low else kept)


def largest_batch(model_class, config: Config, available: int, *how: bool) -> int:
    """The largest batch whose training step fits into so many bytes; 0 if none does. how: as for `memory`."""
    one, two = (memory(model_class, config, batch, *how).total for batch in (1, 2))
    return max(0, 1 + (available - one) // (two - one)) if available >= one else 0


def activations(
    model_class: type[LanguageModel], config: Config, batch: int, time: int, checkpoint_blocks: bool = False
) -> int:
    """Bytes that the caches of one loss keep alive, in float32.

    checkpoint_blocks: the whole cache of one block at a time, and of each other block only its input.

    Measured, not guessed: the caches are arrays whose sizes are polynomials, of first degree in the batch, the number
    of layers and the vocabulary, of second degree in the time. So a few tiny runs say how large the large ones are.
    """
    tiny = dataclasses.replace(config, n_positions=4)
    two, three = (_activations(model_class, tiny, v, batch, time, checkpoint_blocks) for v in (2, 3))
    return two + (three - two) * (config.vocab_size - 2)


def _activations(model_class, config: Config, vocab_size: int, batch: int, time: int, checkpoint_blocks: bool) -> int:
    def kept(rows: int, n_layer: int, t: int) -> int:
        sizes = {"n_layer": n_layer, "vocab_size": vocab_size}
        model = model_class(dataclasses.replace(config, **sizes), seed=None)
        ids = np.zeros((rows, t), int)
        _, cache = model.loss(ids, ids)
        return ops.nbytes(cache) - _parameter_bytes(model, cache)

    def at_time(rows: int, n_layer: int) -> int:
        one, two, three = (kept(rows, n_layer, t) for t in (1, 2, 3))
        slope, bend = two - one, three - 2 * two + one
        return one + slope * (time - 1) + bend * (time - 1) * (time - 2) // 2

    def of_rows(rows: int) -> int:
        first, more = at_time(rows, 1), config.n_layer - 1
        if checkpoint_blocks:
            return first + more * 4 * rows * time * config.n_embd
        return first + (more * (at_time(rows, 2) - first) if more else 0)

    one, two = of_rows(1), of_rows(2)
    return one + (two - one) * (batch - 1)


def _parameter_bytes(model: LanguageModel, cache) -> int:
    """Of what a cache keeps alive, the part that is the parameters themselves."""
    own = {id(parameter.data) for parameter in model.parameters()}
    caches = ops.arrays(cache).values()
    return sum(array.nbytes for array in caches if id(array) in own or id(array.base) in own)


def caches(model_class: type[LanguageModel], config: Config, batch: int) -> str:
    """What the caches of a batch cost, in words, without and with checkpointed blocks."""
    shape = (model_class, config, batch, config.n_positions)
    whole, less = (human_bytes(activations(*shape, checkpoint_blocks)) for checkpoint_blocks in (False, True))
    return whole if less == whole else f"{whole}, with --checkpoint-blocks {less}"


def flops_per_token(model_class: type[LanguageModel], config: Config) -> tuple[int, int]:
    """Floating-point operations for each token of a full context: (forward, forward and backward).

    Forward: two for every weight of a product, the tied head included, and 4 T C for the scores of every attention
    and their sum (all T x T of them, although half are masked). Backward costs twice the forward: one product for the
    input's gradient, one for the weight's.
    """
    sizes = shapes(model_class, config)
    in_products = sum(math.prod(shape) for name, shape in sizes.items() if len(shape) == 2 and name.startswith("h."))
    head = config.vocab_size * config.n_embd
    attentions = sum(name.endswith("c_attn.weight") for name in sizes)
    forward = 2 * (in_products + head) + 4 * attentions * config.n_positions * config.n_embd
    return forward, 3 * forward


def human_bytes(n: float) -> str:
    """1536 -> "1.5 KB", in powers of 1024."""
    units = ["B", "KB", "MB", "GB", "TB"]
    while n >= 1024 and len(units) > 1:
        n, units = n / 1024, units[1:]
    return f"{n:.0f} {units[0]}" if units[0] == "B" or n >= 100 else f"{n:.1f} {units[0]}"

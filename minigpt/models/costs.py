"""What a model costs before it runs: parameters, bytes, floating-point operations."""

import dataclasses
import math
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

from minigpt import ops
from minigpt.device import threads
from minigpt.device.memory import LARGE, counted_as_large
from minigpt.models.config import Config
from minigpt.models.language_model import LanguageModel
from minigpt.nn.layers import inner_width
from minigpt.ops.fast.pieces import products


class Memory(NamedTuple):
    """Bytes of a training step."""

    weights: int
    gradients: int
    moments: int
    activations: int

    @property
    def total(self) -> int:
        """All of them together."""
        return sum(self)

    def __str__(self) -> str:
        parts = [f"{name} {human_bytes(size)}" for name, size in zip(self._fields, self, strict=True)]
        return f"{human_bytes(self.total)}: {', '.join(parts)}"


def shapes(model_class: type[LanguageModel], config: Config) -> dict[str, tuple[int, ...]]:
    """Every parameter's name and shape. Zeros that are never written to take no memory, so any size will do."""
    model = model_class(config, seed=None)
    found = {}
    for name, parameter in model.named_parameters():
        found[name] = parameter.data.shape
    return found


def count(model_class: type[LanguageModel], config: Config) -> int:
    """The number of parameters; the tied head counts once."""
    all_shapes = shapes(model_class, config).values()
    return sum(map(math.prod, all_shapes))


def memory(
    model_class: type[LanguageModel],
    config: Config,
    batch: int,
    checkpoint_blocks: bool = False,
    low: bool = False,
) -> Memory:
    """Bytes for weights, gradients, Adam's two moments, and what a forward pass of (batch, context) keeps.

    All in float32; or, low, with a copy of the weights in bfloat16, and with what is kept in bfloat16.
    """
    kept = activations(model_class, config, batch, config.n_positions, checkpoint_blocks)
    numbers = count(model_class, config)
    weights = 4 * numbers
    if low:
        weights += 2 * numbers
        kept //= 2
    return Memory(weights, gradients=4 * numbers, moments=8 * numbers, activations=kept)


def fit_threads(model: LanguageModel, rows: int) -> None:
    """Choose how many threads are worth it for a model that computes so many rows at once, unless they were given.

    rows: of what its layers multiply: the positions of all texts of a batch; of texts that are written together, the
    number of texts.
    """
    matrices = [parameter.data for parameter in model.parameters() if parameter.data.ndim == 2]
    largest = max(matrices, key=lambda matrix: matrix.size)
    work = products(rows, largest, largest)  # a backward pass multiplies twice with each
    threads.fit_threads(work)


def largest_batch(
    model_class: type[LanguageModel],
    config: Config,
    available: int,
    checkpoint_blocks: bool = False,
    low: bool = False,
) -> int:
    """The largest batch whose training step fits into so many bytes; 0 if none does."""
    one = memory(model_class, config, 1, checkpoint_blocks, low).total
    two = memory(model_class, config, 2, checkpoint_blocks, low).total
    if available < one:
        return 0
    return 1 + (available - one) // (two - one)


# ------------------------------------------------------------------------------------------ what the caches keep alive
#
# One step of a tiny model is traced. Each of its sizes is a prime number of its own, so the length of an axis tells
# which sizes it is made of: 33 = 3 * 11 is three times the number of heads. The same axes with the real sizes give the
# real bytes.

BATCH, TIME, HEADS, HEAD_SIZE, INNER = 5, 13, 11, 17, 29
BY_NAME = {  # sizes that stand in a configuration, if it has them
    "vocab_size": 19, "n_hidden": 23, "embedding_size": 31, "generator_heads": 37, "n_distances": 47, "d_kv": 41,
    "d_ff": 43,
}  # fmt: skip
FARTHEST = 1 << 20  # above every number of rows for distances
WIDTH, PAIRS, TURNED_HEAD = 53, 59, 127  # of a model whose queries and keys turn: its heads have pairs that do
GROUP = 2  # heads of queries for one of keys and values, where there is more than one


def activations(
    model_class: type[LanguageModel],
    config: Config,
    batch: int,
    time: int,
    checkpoint_blocks: bool = False,
) -> int:
    """Bytes that the caches of one loss keep alive, in float32.

    checkpoint_blocks: the whole cache of one block at a time, and of each other block only its input.
    """
    sizes, several = _real_sizes(config, batch, time)
    n_traced = min(2, config.n_layer)
    large = batch * time * config.n_embd >= LARGE
    everything = in_block = 0
    stacks = set()
    second_blocks = False
    for path, array in _traced(model_class, config, n_traced, large):
        numbers = math.prod(_real_length(axis, sizes, several) for axis in array.shape)
        everything += numbers * array.itemsize
        stack, is_block, _ = f".{path}".partition(".h.0.")
        if is_block:
            stacks.add(stack)
            in_block += numbers * array.itemsize
        second_blocks |= ".h.1." in f".{path}"
    more_blocks = config.n_layer - n_traced
    if checkpoint_blocks:
        inputs = len(stacks) * 4 * batch * time * config.n_embd
        return everything - second_blocks * in_block + (more_blocks + second_blocks) * inputs
    return everything + more_blocks * in_block


def _real_sizes(config: Config, batch: int, time: int) -> tuple[dict[int, int], dict[int, int]]:
    """{size of the tiny model: the real one}, and the same for how many of one size an axis has."""
    n_kv_head = getattr(config, "n_kv_head", config.n_head)
    sizes = {
        BATCH: batch,
        TIME: time,
        HEADS: n_kv_head,
        HEAD_SIZE: config.n_embd // config.n_head,
        INNER: inner_width(config),
        WIDTH: config.n_embd,
        PAIRS: getattr(config, "n_turned_columns", 2) // 2,
        TURNED_HEAD: getattr(config, "head_size", 1),
    }
    sizes |= {prime: getattr(config, name, 1) for name, prime in BY_NAME.items()}
    several = {1: 1, 2: 2, 3: 3, 4: 4}  # as the three parts of a projection
    group = config.n_head // n_kv_head
    if group > 1:  # queries, and these with keys and values, as multiples of keys
        several |= {GROUP: group, GROUP + 2: group + 2}
    return sizes, several


def _traced(
    model_class: type[LanguageModel], config: Config, n_layer: int, large: bool
) -> Iterator[tuple[str, np.ndarray]]:
    """The arrays that the caches of a tiny model with so many blocks hold, but for its parameters, with their paths.

    large: keep what a model keeps whose arrays are large.
    """
    tiny: dict[str, Any] = BY_NAME | {
        "n_positions": TIME,
        "n_head": HEADS,
        "n_embd": HEADS * HEAD_SIZE,
        "n_layer": n_layer,
        "n_inner": INNER,
    }
    if getattr(config, "max_distance", None) is not None:
        tiny["max_distance"] = FARTHEST
    if config.n_head == 1:
        tiny |= {"n_head": 1, "n_embd": HEAD_SIZE}
    fields = {field.name for field in dataclasses.fields(config)}
    if "d_kv" in fields:  # heads do not share the width
        tiny["n_embd"] = WIDTH
    if "n_kv_head" in fields:
        group = GROUP if config.n_head > getattr(config, "n_kv_head", 1) else 1
        tiny |= {"n_embd": WIDTH, "n_head": group * HEADS, "n_kv_head": HEADS, "head_size": TURNED_HEAD}
        tiny["rotary_share"] = (2 * PAIRS + 0.5) / TURNED_HEAD
    tiny = {name: value for name, value in tiny.items() if name in fields}
    model = model_class(dataclasses.replace(config, **tiny), seed=None)
    ids = np.zeros((BATCH, TIME), int)
    with counted_as_large(large):
        cache = model.trial(ids)
    parameters = {id(parameter.data) for parameter in model.parameters()}
    for path, array in ops.arrays(cache).items():
        if id(array) not in parameters and id(array.base) not in parameters:
            yield path, array


def _real_length(axis: int, sizes: dict[int, int], several: dict[int, int]) -> int:
    """The length of an axis for the real sizes, where it has this length for the tiny ones.

    several: {so many of a size, as the three parts of a projection: so many of the real one}.
    """
    for extra in (0, 1):  # a state before the first step makes an axis one longer
        rest, real = axis - extra, 1
        for prime, size in sizes.items():
            while rest and rest % prime == 0:
                rest //= prime
                real *= size
        if rest in several:
            return several[rest] * real + extra
    raise AssertionError(f"an axis of {axis} is made of none of {list(sizes)}")


def caches(model_class: type[LanguageModel], config: Config, batch: int) -> str:
    """What the caches of a batch cost, in words, without and with checkpointed blocks."""
    whole = human_bytes(activations(model_class, config, batch, config.n_positions))
    if not model_class.can_checkpoint_blocks:
        return whole
    less = human_bytes(activations(model_class, config, batch, config.n_positions, checkpoint_blocks=True))
    if less == whole:
        return whole
    return f"{whole}, with --checkpoint-blocks {less}"


def flops_per_token(model_class: type[LanguageModel], config: Config) -> tuple[int, int]:
    """Floating-point operations for each token of a full context: (forward, forward and backward).

    Forward: two for every weight of a product, the tied head included, and 4 T NH D for the scores of every attention
    and their sum (all T x T of them, although half are masked). Backward costs twice the forward: one product for the
    input's gradient, one for the weight's.
    """
    model = model_class(config, seed=None)
    size: Any = getattr(config, "head_size", None) or getattr(config, "d_kv", config.n_embd // config.n_head)
    width = config.n_head * size  # of all heads together, which need not be C
    in_products = model.head.data.size
    in_attention = 0
    for block in model.blocks:
        for parameter in block.parameters():
            if parameter.data.ndim == 2:
                in_products += parameter.data.size
        n_attentions = hasattr(block, "attn") + hasattr(block, "crossattention")
        in_attention += n_attentions * config.n_positions * width
    forward = 2 * in_products + 4 * in_attention
    backward = 2 * forward
    return forward, forward + backward


def human_bytes(n: float) -> str:
    """1536 -> "1.5 KB", in powers of 1024."""
    units = ["B", "KB", "MB", "GB", "TB"]
    while n >= 1024 and len(units) > 1:
        n /= 1024
        units = units[1:]
    if units[0] == "B" or n >= 100:
        return f"{n:.0f} {units[0]}"
    return f"{n:.1f} {units[0]}"

"""What a model is made of, and what it costs: the answer to `minigpt info`."""

import math
from pathlib import Path

from minigpt import models
from minigpt.errors import InputError
from minigpt.files import hub
from minigpt.models import costs
from minigpt.models.config import Config
from minigpt.models.language_model import LanguageModel


def show_size(model: str, size: str | None, batch: int) -> None:
    """Print the table for a named size of a model: ("gpt1", "paper"). None is the size that it is known by."""
    card = models.card(model)
    sizes = models.size(model, size or card.usual_size)
    show(card.model, card.model.Config(**sizes), batch)


def show_folder(folder: str | Path, batch: int) -> None:
    """Print the table for a model directory."""
    kind = models.card_in(folder).model
    show(kind, kind.Config.from_dict(kind.read_config(hub.find(folder))), batch)


def show(kind: type[LanguageModel], config: Config, batch: int) -> None:
    """Print every tensor with its shape and count, then the total, bytes and FLOPs.

    batch: sequences of the full context, for the bytes of activations. Raises InputError for a batch below 1.
    """
    if batch < 1:
        raise InputError(f"--batch {batch}: give 1 or more")
    total = costs.count(kind, config)
    for name, shape in costs.shapes(kind, config).items():
        print(f"{name:<28} {' x '.join(map(str, shape)):>14} {math.prod(shape):>14,}")
    print(f"{'total':<28} {'':>14} {total:>14,} parameters")
    memory = costs.memory(kind, config, batch)
    forward, both = costs.flops_per_token(kind, config)
    print(f"\nbytes of a training step in float32, batch {batch} x context {config.n_positions}:")
    for name, size in zip(memory._fields, memory, strict=True):
        print(f"  {name:<12} {costs.human_bytes(size):>10}")
    print(f"  {'total':<12} {costs.human_bytes(memory.total):>10}")
    less = costs.memory(kind, config, batch, checkpoint_blocks=True)
    if less != memory:
        sizes = f"activations {costs.human_bytes(less.activations)}, total {costs.human_bytes(less.total)}"
        print(f"  with --checkpoint-blocks: {sizes}")
    print(f"\nfloating-point operations per token: {forward:,} forward, {both:,} forward and backward")

"""What a model is made of, and what it costs: the answer to `minigpt info`."""

import math
from dataclasses import dataclass
from pathlib import Path

from minigpt import models
from minigpt.errors import InputError
from minigpt.files import hub
from minigpt.jobs.options import argument, option
from minigpt.models import costs
from minigpt.models.config import Config
from minigpt.models.language_model import LanguageModel

MODEL = models.names()[0]  # where nothing is given
_USUAL_SIZES = ", ".join(f"{card.name}: {card.usual_size}" for card in models.CARDS)


@dataclass(kw_only=True)
class InfoOptions:
    """What `minigpt info` can be told."""

    folder: str | None = argument("a model directory; or name a size:", default=None, metavar="MODEL")
    model: str | None = option(None, f"default: {MODEL}", choices=models.names())
    size: str | None = option(None, f"{models.size_names()} (default: {_USUAL_SIZES})", metavar="NAME")
    batch: int = option(1, "for the bytes of activations", metavar="B")


def info(options: InfoOptions) -> None:
    """Print the table for a model directory, or for a named size. Raises InputError where both are given."""
    folder = options.folder
    if folder and (options.model or options.size):
        raise InputError(f"info {folder}: the folder says what its model is: leave --model and --size out")
    if folder:
        show_folder(folder, options.batch)
    else:
        show_size(options.model or MODEL, options.size, options.batch)


def show_size(model: str, size: str | None, batch: int) -> None:
    """Print the table for a named size of a model: ("gpt1", "paper"). None is the size that it is known by."""
    card = models.card(model)
    if size is None:
        size = card.usual_size
    values = models.size(model, size)
    config = card.model.Config(**values)
    show(card.model, config, batch)


def show_folder(folder: str | Path, batch: int) -> None:
    """Print the table for a model directory."""
    kind = models.card_in(folder).model
    values = kind.read_config(hub.find(folder))
    config = kind.Config.from_dict(values)
    show(kind, config, batch)


def show(kind: type[LanguageModel], config: Config, batch: int) -> None:
    """Print every tensor with its shape and count, then the total, bytes and FLOPs.

    batch: sequences of the full context, for the bytes of activations. Raises InputError for a batch below 1.
    """
    if batch < 1:
        raise InputError(f"--batch {batch}: give 1 or more")
    _show_tensors(kind, config)
    memory = costs.memory(kind, config, batch)
    print(f"\nbytes of a training step in float32, batch {batch} x context {config.n_positions}:")
    _show_memory(memory)
    less = costs.memory(kind, config, batch, checkpoint_blocks=True)
    if less != memory:
        activations = costs.human_bytes(less.activations)
        total = costs.human_bytes(less.total)
        print(f"  with --checkpoint-blocks: activations {activations}, total {total}")
    forward, both = costs.flops_per_token(kind, config)
    print(f"\nfloating-point operations per token: {forward:,} forward, {both:,} forward and backward")


def _show_tensors(kind: type[LanguageModel], config: Config) -> None:
    """A line for each tensor: name, shape, number of parameters; and their sum."""
    for name, shape in costs.shapes(kind, config).items():
        sizes = " x ".join(map(str, shape))
        number = math.prod(shape)
        print(f"{name:<28} {sizes:>14} {number:>14,}")
    total = costs.count(kind, config)
    print(f"{'total':<28} {'':>14} {total:>14,} parameters")


def _show_memory(memory: costs.Memory) -> None:
    """A line for each kind of memory, and their sum."""
    sizes = memory._asdict()
    sizes["total"] = memory.total
    for name, size in sizes.items():
        shown = costs.human_bytes(size)
        print(f"  {name:<12} {shown:>10}")

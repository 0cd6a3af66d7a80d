"""What a model is made of, and what it costs: the answer to `minigpt info`."""

import dataclasses
import math
from collections import Counter
from dataclasses import dataclass

import numpy as np

from minigpt import models, ops
from minigpt.device import parallel
from minigpt.device.gpu import choose_device
from minigpt.device.threads import about_threads
from minigpt.errors import InputError
from minigpt.files import hub
from minigpt.jobs.option_fields import argument, option
from minigpt.jobs.pretrain import compare
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
    compare: bool = option(False, "of a run of minigpt train: is its loss normal, beside those of sound runs?")
    ops: bool = option(False, "show which implementation runs each operation of a training step, and why not another")


def info(options: InfoOptions) -> None:
    """Print the table for a model directory, or for a named size. Raises InputError where both are given."""
    folder = options.folder
    if folder and (options.model or options.size):
        raise InputError(f"info {folder}: the folder says what its model is: leave --model and --size out")
    if options.compare:
        if not folder:
            raise InputError("info --compare: give the folder of a run, such as runs/gpt1-stories-nano")
        print(compare(folder))
        return
    if folder:
        kind = models.card_in(folder).model
        config = kind.config_in(hub.find(folder))
    else:
        card = models.card(options.model or MODEL)
        kind = card.model
        config = kind.Config(**models.size(card.name, options.size or card.usual_size))
    if options.ops:
        show_operations(kind, config)
        return
    show(kind, config, options.batch)
    if not folder and card.differs and options.size not in models.common_sizes():
        print(f"\nnot the published model: {card.differs}")


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
    costs.fit_threads(kind(config, seed=None), batch * config.n_positions)
    print(f"such a step on a processor of {parallel.cores()} cores: {about_threads()}")


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


def show_operations(kind: type[LanguageModel], config: Config) -> None:
    """Print, for each operation of a training step, which implementation runs it, how often, and why not another.

    One step is traced: a few tokens, one block, float32, on the device that is used by default.
    """
    device = choose_device()
    model = kind(dataclasses.replace(config, n_layer=1, vocab_size=16, n_positions=8), seed=0).to(device)
    optimizer = next(card.optimizer for card in models.CARDS if card.model is kind)(model.named_parameters())
    ids = np.zeros((1, 8), int)
    with ops.tracing() as calls:
        _, cache = model.loss(ids, ids, key=ops.Key.of(0, 0), **model.trial_inputs(ids))
        model.loss_backward(cache)
        optimizer.step(0.0, max_norm=1.0)
    print(f"{'operation':<22} {'implementation':<16} {'calls':>5}   on {device}, with one block")
    for call, number in Counter(map(str, calls)).items():
        op, _, rest = call.partition(": ")
        implementation, _, reasons = rest.partition(" ")
        if implementation == "reference" and not reasons:
            reasons = f"(no other has it on {device})"
        print(f"{op:<22} {implementation:<16} {number:>5}   {reasons}".rstrip())

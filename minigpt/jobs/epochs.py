"""A model that learns from examples, epoch by epoch: what fine-tuning and tuning on instructions share.

It can be stopped at any update, and goes on at any: what is drawn is a function of the seed, the epoch and the update.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np

from minigpt.errors import InputError, NonFiniteGradient
from minigpt.jobs.updates import Updates
from minigpt.nn.schedules import warmup_linear
from minigpt.ops.random_keys import Key


def batches(lengths: Sequence[int], size: int, rng: np.random.Generator) -> list[np.ndarray]:
    """The examples in any order, in batches; what does not fill one is left out, as in OpenAI's code.

    Those of like length come together: of eight batches at a time the examples are sorted, so that little is filled up.
    """
    order = rng.permutation(len(lengths))
    size = min(size, len(lengths))
    order = order[: len(order) // size * size]
    lengths = np.asarray(lengths)
    found = []
    for first in range(0, len(order), 8 * size):
        group = order[first : first + 8 * size]
        group = group[np.argsort(lengths[group], kind="stable")]
        found += [group[i : i + size] for i in range(0, len(group), size)]
    return [found[i] for i in rng.permutation(len(found))]


class Epochs(Updates):
    """The epochs of one model, and how far they are. A subclass learns, evaluates, and keeps the run.

    lengths: of the examples, in tokens. rate: the highest. step: updates made; epoch: epochs that have been evaluated;
    losses: of each update since then; best: the best evaluation so far.
    """

    draw: tuple[int, ...] = ()  # beside the seed and the epoch, what the order of the examples is drawn with

    def __init__(self, lengths: Sequence[int], options: Any, seed: int, rate: float):
        super().__init__()
        self.lengths = lengths
        self.options = options
        self.seed = seed
        self.rate = rate
        self.in_epoch = len(lengths) // min(options.batch, len(lengths))
        self.total = self.in_epoch * options.epochs
        self.step = 0
        self.epoch = 0
        self.losses: list[Any] = []
        self.best: float | None = None
        self.planned = -1  # the epoch whose plan is at hand
        self.rows: list[np.ndarray] = []

    def learn(self, rows: np.ndarray, key: Key, lr: float) -> Any:
        """Update the weights with these examples; returns the losses before. Raises NonFiniteGradient."""
        raise NotImplementedError

    @property
    def pauses(self) -> bool:
        """Is this the end of an epoch, which has not been evaluated yet?"""
        return self.step == (self.epoch + 1) * self.in_epoch

    def plan(self) -> list[np.ndarray]:
        """The examples of each update of this epoch."""
        return batches(self.lengths, self.options.batch, np.random.default_rng([self.seed, self.epoch, *self.draw]))

    def shown(self, loss: Any) -> str:
        """What `learn` has returned, beside the bar."""
        return f"loss {loss:.3f}"

    def update(self) -> None:
        """One update. Raises InputError where a gradient is not finite."""
        if self.planned != self.epoch:
            self.planned, self.rows = self.epoch, self.plan()
        rows = self.rows[self.step - self.epoch * self.in_epoch]
        lr = self.rate * warmup_linear(self.step / self.total, self.options.warmup)
        try:
            self.losses.append(self.learn(rows, Key.of(self.seed, self.step), lr))
        except NonFiniteGradient as error:
            raise InputError(f"update {self.step + 1}: {error}: {self.advice}") from error
        self.progress = self.shown(self.losses[-1])
        self.step += 1

    @property
    def advice(self) -> str:
        """What to do where a number is not finite."""
        return f"give a smaller --lr than {self.rate:.2g}, and another --out"

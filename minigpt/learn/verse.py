"""A verse that a small model learns by heart in seconds: how right and wrong operations are tried in a training."""

from collections.abc import Callable, Iterator
from typing import NamedTuple

import numpy as np

from minigpt.models.language_model import LanguageModel
from minigpt.nn.optim import AdamW

VERSE = "the rain came down , the sun came out , and the small model learned what the words are about ."
WORDS = VERSE.split()
VOCABULARY = sorted(set(WORDS))
IDS = np.array([VOCABULARY.index(word) for word in WORDS])


class Training(NamedTuple):
    """steps: updates; batch: windows of `context` words in each; rate: the highest, after `warmup` updates."""

    steps: int
    batch: int
    context: int
    rate: float
    warmup: int

    def losses(self, model: LanguageModel, inputs: Callable[[int, np.ndarray], dict] | None = None) -> Iterator[float]:
        """Train a model on the verse, and yield the loss of each update before it is made.

        inputs: what a loss is given beside ids and targets, from the number of the update and its windows.
        """
        optimizer = AdamW(model.named_parameters())
        rng = np.random.default_rng(0)
        endless = np.tile(IDS, 3)
        for step in range(self.steps):
            starts = rng.integers(0, len(IDS), self.batch)
            windows = np.stack([endless[start : start + self.context + 1] for start in starts])
            more = inputs(step, windows) if inputs else {}
            model.zero_grad()
            loss, cache = model.loss(windows[:, :-1], windows[:, 1:], **more)
            yield float(loss)
            model.loss_backward(cache)
            optimizer.step(self.rate * min(1, (step + 1) / self.warmup) * (1 - step / self.steps))

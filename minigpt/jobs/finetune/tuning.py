"""The heart of fine-tuning: one update, and the epochs of one seed.

A `Tuning` knows how far it is, so that it can go on at any update: what is drawn is a function of the seed, the epoch
and the update.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
from tqdm import tqdm

from minigpt.data import input_transformations
from minigpt.device.arrays import Array, to_numpy
from minigpt.errors import InputError
from minigpt.files import checkpoint
from minigpt.jobs.finetune.examples import Data
from minigpt.jobs.finetune.judging import Judged, evaluate
from minigpt.jobs.finetune.settings import RATE, FinetuneOptions
from minigpt.models.task_model import Losses, TaskModel
from minigpt.nn.optim import GPT1Adam, NonFiniteGradient, clip_by_global_norm
from minigpt.nn.schedules import warmup_linear
from minigpt.ops.random_keys import Key

# ------------------------------------------------------------------------------------------------ updates


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


class Tuning:
    """The fine-tuning of a classifier with one seed, and how far it is.

    step: updates made; epoch: epochs that have been evaluated; losses: (task, language model) of each update since
    then; best: the highest score so far, and best_weights its weights by name; judged: how that epoch did, where it
    was evaluated in this process.
    """

    def __init__(
        self,
        model: TaskModel,
        train: Data,
        valid: Data,
        options: FinetuneOptions,
        seed: int,
    ):
        self.model = model
        self.train = train
        self.valid = valid
        self.options = options
        self.seed = seed
        self.optimizer = GPT1Adam(model.learned(), weight_decay=options.weight_decay)
        self.rate = RATE / model.body.config.n_embd if options.lr is None else options.lr
        self.lengths = train.lengths
        self.in_epoch = len(self.lengths) // min(options.batch, len(self.lengths))
        self.total = self.in_epoch * options.epochs
        self.step = 0
        self.epoch = 0
        self.losses: list[tuple[float, float]] = []
        self.best: float | None = None
        self.best_weights: dict[str, Array] = {}
        self.judged: Judged | None = None

    def batches_left(self) -> list[np.ndarray]:
        """The examples of each update that this epoch still has to make."""
        rng = np.random.default_rng([self.seed, self.epoch])
        done = self.step - self.epoch * self.in_epoch
        return batches(self.lengths, self.options.batch, rng)[done:]

    def update(self, rows: np.ndarray) -> None:
        """One update with these examples. Raises InputError where a gradient is not finite."""
        lr = self.rate * warmup_linear(self.step / self.total, self.options.warmup)
        key = Key.of(self.seed, self.step)
        try:
            found = update(self.model, self.train, rows, self.options, key, self.optimizer, lr)
        except NonFiniteGradient as error:
            advice = f"give a smaller --lr than {self.rate:.2g}, and another --out"
            raise InputError(f"update {self.step + 1}: {error}: {advice}") from error
        self.losses.append((float(found.task), float(found.lm)))
        self.step += 1

    def close_epoch(self, judged: Judged) -> tuple[dict[str, float], bool]:
        """End an epoch that was evaluated: (its row of the table, whether it is the best so far)."""
        train_loss, lm_loss = np.mean(self.losses, axis=0)
        self.epoch += 1
        self.losses = []
        better = self.best is None or judged.score > self.best
        if better:
            self.best = judged.score
            self.judged = judged
            self.best_weights = {name: p.data.copy() for name, p in self.model.named_parameters()}
        row = {
            "epoch": self.epoch,
            "step": self.step,
            "train_loss": float(train_loss),
            "lm_loss": float(lm_loss),
            "valid_loss": judged.loss,
            "score": judged.score,
        }
        return row, better

    def take_best(self) -> None:
        """Make the model what it was after its best epoch."""
        for name, parameter in self.model.named_parameters():
            parameter.data = self.best_weights[name]

    def state(self) -> dict[str, Any]:
        """What is needed, beside the tensors, to go on: JSON keeps every bit of it."""
        return {
            "seed": self.seed,
            "step": self.step,
            "epoch": self.epoch,
            "losses": self.losses,
            "best": self.best,
        }

    def tensors(self) -> dict[str, np.ndarray]:
        """The weights, the moments and the best weights so far, by name."""
        weights = {f"p.{name}": to_numpy(p.data) for name, p in self.model.named_parameters()}
        best = {f"best.{name}": to_numpy(data) for name, data in self.best_weights.items()}
        return weights | self.optimizer.state() | best

    def restore(self, state: dict[str, Any], tensors: dict[str, np.ndarray], source: Any) -> None:
        """Go on from what `state` and `tensors` gave. source: where they come from, for the error.

        Raises InputError for tensors of another model.
        """
        self.step = state["step"]
        self.epoch = state["epoch"]
        self.losses = [tuple(pair) for pair in state["losses"]]
        self.best = state["best"]
        parameters = dict(self.model.named_parameters())
        if self.best is not None:  # the first time through the model, because `fill` checks what it takes
            checkpoint.fill(parameters, _part(tensors, "best."), source)
            self.best_weights = {name: p.data.copy() for name, p in parameters.items()}
        checkpoint.fill(parameters, _part(tensors, "p."), source)
        self.optimizer.load_state(tensors, self.step)


def _part(tensors: dict[str, np.ndarray], prefix: str) -> dict[str, np.ndarray]:
    """The tensors whose names begin so, without that beginning."""
    return {name.removeprefix(prefix): tensor for name, tensor in tensors.items() if name.startswith(prefix)}


def update(
    model: TaskModel,
    data: Data,
    rows: np.ndarray,
    options: FinetuneOptions,
    key: Key,
    optimizer: GPT1Adam,
    lr: float,
) -> Losses:
    """One update of the weights; returns the losses before it."""
    ids, lengths = input_transformations.batch([data.encoded[i] for i in rows])
    labels = np.array([data.examples[i].label for i in rows])
    model.zero_grad()
    losses, cache = model.loss(ids, lengths, labels, options.lm_weight, key=key)
    model.loss_backward(cache)
    clip_by_global_norm(model.learned(), options.clip)
    optimizer.step(lr)
    return losses


# ------------------------------------------------------------------------------------- the epochs of one seed


class Watch:
    """What somebody does beside the updates; here nothing. Each method may raise, and the work goes on later."""

    def check(self) -> None:
        """Runs before each batch of an evaluation."""

    def updated(self, tuning: Tuning) -> None:
        """Runs after each update."""

    def evaluated(self, tuning: Tuning, row: dict[str, float], better: bool) -> None:
        """Runs after each epoch. row: epoch, step and losses of it; better: it is the best so far."""


def tune(
    model: TaskModel,
    train: Data,
    valid: Data,
    options: FinetuneOptions,
    seed: int,
    watch: Watch | None = None,
) -> Judged:
    """Fine-tune a classifier in place: it ends as it was after its best epoch on validation; returns how that did.

    Raises InputError where a gradient is not finite.
    """
    return run(Tuning(model, train, valid, options, seed), watch or Watch())


def run(tuning: Tuning, watch: Watch) -> Judged:
    """All epochs that are left, as `tune`. Raises InputError where a gradient is not finite."""
    several = f"seed {tuning.seed}" if tuning.options.seeds > 1 else None
    with tqdm(total=tuning.total, initial=tuning.step, desc=several, unit="step", dynamic_ncols=True) as bar:
        while tuning.epoch < tuning.options.epochs:
            for rows in tuning.batches_left():
                tuning.update(rows)
                bar.update()
                task_loss, lm_loss = tuning.losses[-1]
                bar.set_postfix_str(f"loss {task_loss:.3f}, language model {lm_loss:.3f}", refresh=False)
                watch.updated(tuning)
            judged = evaluate(tuning.model, tuning.valid, watch.check)
            row, better = tuning.close_epoch(judged)
            watch.evaluated(tuning, row, better)
    tuning.take_best()
    if tuning.judged is None:  # it was evaluated before the run was stopped
        tuning.judged = evaluate(tuning.model, tuning.valid, watch.check)
    return tuning.judged

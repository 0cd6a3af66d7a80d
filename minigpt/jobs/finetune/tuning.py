"""The heart of fine-tuning: one update, one evaluation, and the epochs of one seed."""

from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
from tqdm import tqdm

from minigpt.data import input_transformations
from minigpt.data.examples import TAGGING, Example, Task
from minigpt.data.input_transformations import Encoded
from minigpt.device.arrays import Array, to_numpy
from minigpt.evaluation import metrics
from minigpt.files import checkpoint
from minigpt.jobs.epochs import Epochs
from minigpt.jobs.finetune.examples import Data
from minigpt.jobs.finetune.settings import RATE, FinetuneOptions
from minigpt.jobs.run_folder import part
from minigpt.models.task_model import TaskModel, expected_score, score_targets
from minigpt.models.token_classifier import places_in, token_targets, unit_answers
from minigpt.nn.optim import GPT1Adam, clip_by_global_norm
from minigpt.ops import IGNORED
from minigpt.ops.random_keys import Key

TINY = 1e-300  # a probability of 0 has no logarithm


class Judged(NamedTuple):
    """How a classifier did: the task's metric, the mean cross-entropy in nats, its answers, and how sure it was."""

    score: float
    loss: float
    answers: Any  # (N,) int: labels or choices; float: scores; of a tagging N lists of names
    probabilities: Any  # (N,K); of a tagging N arrays (U,), of the answers


def _answered(
    model: TaskModel, encoded: Sequence[Sequence[Encoded]], size: int, check: Callable[[], None]
) -> Iterator[tuple[int, list[Encoded], np.ndarray]]:
    """(number, its sequences, probabilities) of each example, those of like length together."""
    order = sorted(range(len(encoded)), key=lambda i: len(encoded[i][0].ids))
    for first in tqdm(range(0, len(order), size), "evaluating", leave=False, delay=2, disable=None):
        check()
        rows = order[first : first + size]
        sequences = [encoded[i] for i in rows]
        ids, lengths = input_transformations.batch(sequences)
        yield from zip(rows, sequences, model.probabilities(ids, lengths), strict=True)


def answer(
    model: TaskModel, encoded: Sequence[Sequence[Encoded]], size: int = 64, check: Callable[[], None] = lambda: None
) -> np.ndarray:
    """(N,K): how likely each label, or each candidate, is the right one, for sequences of like length together.

    check: runs before each batch of `size` examples; it may raise.
    """
    found: list[Any] = [None] * len(encoded)
    for i, _, p in _answered(model, encoded, size, check):
        found[i] = p
    return np.array(found)


class Tagged(NamedTuple):
    """Of a sentence: the labels of its units, how likely each is, and the loss, where the right ones are known."""

    names: list[str]
    probabilities: np.ndarray
    loss: float


def answer_units(
    model: TaskModel, data: Data, size: int = 64, check: Callable[[], None] = lambda: None
) -> list[Tagged]:
    """The labels that a model with a head for tokens gives the units of each sentence. size, check: as for `answer`."""
    found: list[Any] = [None] * len(data.encoded)
    for i, (sequence,), p in _answered(model, data.encoded, size, check):
        places = places_in(sequence.places, model.body)
        names, sure = unit_answers(model.task, p, places)
        loss = 0.0
        if data.examples[i].label is not None:
            targets = token_targets(places, _indices(model.task, data.examples[i]), len(p))
            asked = np.flatnonzero(targets != IGNORED)
            loss = float(-np.log(np.maximum(p[asked, targets[asked]], TINY)).sum() / max(1, len(asked)))
        found[i] = Tagged(names, sure, loss)
    return found


def _indices(task: Task, example: Example) -> list[int]:
    """The labels of the units of a sentence as numbers; -100 for those that the model does not know."""
    index = {name: i for i, name in enumerate(task.labels)}
    return [index.get(name, IGNORED) for name in example.label]


def targets(model: TaskModel, data: Data, rows: Sequence[int]) -> np.ndarray:
    """What `loss` takes as labels of these examples: (N,); of a tagging (N,T), a label for each token."""
    examples = [data.examples[i] for i in rows]
    if model.task.kind != TAGGING:
        return np.array([example.label for example in examples])
    sequences = [data.encoded[i][0] for i in rows]
    length = max(len(one.ids) for one in sequences)
    return np.array([
        token_targets(places_in(one.places, model.body), _indices(model.task, example), length)
        for one, example in zip(sequences, examples, strict=True)
    ])  # fmt: skip


def evaluate(model: TaskModel, data: Data, check: Callable[[], None] = lambda: None) -> Judged:
    """Judge a classifier by the task's own metric, on all of these examples. check: as for `answer`."""
    if model.task.kind == TAGGING:
        tagged = answer_units(model, data, check=check)
        answers = [one.names for one in tagged]
        loss = float(np.mean([one.loss for one in tagged]))
        score = metrics.judge(model.task, answers, data.labels)
        return Judged(score, loss, answers, [one.probabilities for one in tagged])
    p = answer(model, data.encoded, check=check)
    labels = np.array(data.labels)
    if model.task.scored:
        answers = expected_score(p)
        classes, weights = score_targets(labels)
        of_right = np.take_along_axis(p, classes, axis=1)
        losses = -(weights * np.log(np.maximum(of_right, TINY))).sum(axis=1)
    else:
        answers = p.argmax(axis=1)
        of_right = p[np.arange(len(p)), labels]
        losses = -np.log(np.maximum(of_right, TINY))
    return Judged(metrics.judge(model.task, answers, labels), float(losses.mean()), answers, p)


class Tuning(Epochs):
    """The fine-tuning of a classifier with one seed, and how far it is.

    losses: (task, language model) of each update; best: the highest score so far, and best_weights its weights by name;
    judged: how that epoch did, where it was evaluated in this process.
    """

    def __init__(self, model: TaskModel, train: Data, valid: Data, options: FinetuneOptions, seed: int):
        rate = RATE / model.body.config.n_embd if options.lr is None else options.lr
        super().__init__(train.lengths, options, seed, rate)
        self.model = model
        self.train = train
        self.valid = valid
        self.optimizer = GPT1Adam(model.learned(), weight_decay=options.weight_decay)
        self.best_weights: dict[str, Array] = {}
        self.judged: Judged | None = None

    def learn(self, rows: np.ndarray, key: Key, lr: float) -> tuple[float, float]:
        """One update of the weights; returns the losses before it, of the task and of the language model."""
        ids, lengths = input_transformations.batch([self.train.encoded[i] for i in rows])
        labels = targets(self.model, self.train, rows)
        self.model.zero_grad()
        losses, cache = self.model.loss(ids, lengths, labels, self.options.lm_weight, key=key)
        self.model.loss_backward(cache)
        clip_by_global_norm(self.model.learned(), self.options.clip)
        self.optimizer.step(lr)
        return float(losses.task), float(losses.lm)

    def shown(self, loss: tuple[float, float]) -> str:
        """Both losses, beside the bar."""
        task_loss, lm_loss = loss
        return f"loss {task_loss:.3f}, language model {lm_loss:.3f}"

    def pause(self) -> None:
        """End an epoch: judge the validation examples, and remember the weights if they are the best so far."""
        judged = evaluate(self.model, self.valid, self.check)
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
        self.evaluated(row, better)

    def evaluated(self, row: dict[str, float], better: bool) -> None:
        """Runs after each epoch; here nothing. row: epoch, step and losses of it; better: it is the best so far."""

    def finish(self) -> Judged:
        """All epochs that are left; then the model is what it was after its best epoch. Returns how that did."""
        self.all_updates(f"seed {self.seed}" if self.options.seeds > 1 else None)
        for name, parameter in self.model.named_parameters():
            parameter.data = self.best_weights[name]
        if self.judged is None:  # it was evaluated before the run was stopped
            self.judged = evaluate(self.model, self.valid, self.check)
        return self.judged

    def state(self) -> dict[str, Any]:
        """What is needed, beside the tensors, to go on: JSON keeps every bit of it."""
        return {name: getattr(self, name) for name in ("seed", "step", "epoch", "losses", "best")}

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
            checkpoint.fill(parameters, part(tensors, "best."), source)
            self.best_weights = {name: p.data.copy() for name, p in parameters.items()}
        checkpoint.fill(parameters, part(tensors, "p."), source)
        self.optimizer.load_state(tensors, self.step)


def tune(model: TaskModel, train: Data, valid: Data, options: FinetuneOptions, seed: int) -> Judged:
    """Fine-tune a classifier in place: it ends as it was after its best epoch on validation; returns how that did.

    Raises InputError where a gradient is not finite.
    """
    return Tuning(model, train, valid, options, seed).finish()

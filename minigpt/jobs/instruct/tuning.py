"""The heart of tuning on instructions: one update, one evaluation, and what is kept of a run."""

import math
import time
from collections.abc import Sequence
from typing import Any

import numpy as np
from tqdm import tqdm

from minigpt.device.arrays import array_module
from minigpt.device.threads import about_threads
from minigpt.errors import InputError
from minigpt.jobs import run_state
from minigpt.jobs.chat_template import Template
from minigpt.jobs.epochs import Epochs
from minigpt.jobs.instruct.examples import Example, batch, n_targets, n_tokens
from minigpt.jobs.instruct.settings import InstructOptions
from minigpt.jobs.option_fields import told
from minigpt.jobs.run_folder import Kind, Run
from minigpt.models.adapters import save_adapter
from minigpt.models.answers import answers_backward, answers_forward
from minigpt.models.language_model import LanguageModel
from minigpt.models.lora import lora_parameters
from minigpt.nn.optim import AdamW
from minigpt.ops.random_keys import Key
from minigpt.tokenizer import Tokenizer

ADAPTER = "adapter"  # the folder in that of the run
INSTRUCTING = Kind(
    command="minigpt instruct",
    key="instruct",
    table="instruct.csv",
    columns=("step", "epoch", "train_loss", "valid_loss", "other_loss"),
    state=("step", "best", "losses", "finished", "options", "marks", "logged", "workers"),
    files=(ADAPTER,),
)
FORWARD = 3  # an update takes about as long as so many forward passes


class Tuning(Epochs):
    """A run, and how far it is.

    learned: what learns, by name. other: windows of the other text, ids and targets. marks: checksums of what the run
    is made of. logged: the step of the last line of the table, -1 before the first; best: the smallest loss on what is
    kept apart.
    """

    draw = (2,)

    def __init__(
        self,
        options: InstructOptions,
        model: LanguageModel,
        text: Tokenizer,
        template: Template,
        train: list[Example],
        valid: list[Example],
        other: list[tuple[np.ndarray, np.ndarray]],
        marks: dict[str, str],
        run: Run,
    ):
        super().__init__([len(example.ids) for example in train], options, options.seed, options.lr)
        self.model = model
        self.text = text
        self.template = template
        self.train = train
        self.valid = valid
        self.other = other
        self.marks = marks
        self.run = run
        self.learned = lora_parameters(model)
        self.optimizer = AdamW(self.learned.items(), weight_decay=0.0)
        self.logged = -1
        self.finished = False

    def named_parameters(self):
        """What is kept of the model: the matrices that learn."""
        return iter(self.learned.items())

    def learn(self, rows: np.ndarray, key: Key, lr: float) -> float:
        """One update; returns the loss before it, in nats a token."""
        examples = [self.train[i] for i in rows]
        ids, targets = batch(examples)
        n = n_targets(examples)
        self.model.zero_grad()
        log_p, cache = answers_forward(self.model, ids, targets, key=key)
        # loss = -sum(log_p) / n
        dlog_p = array_module(log_p).full_like(log_p, -1 / n)
        answers_backward(dlog_p, cache)
        self.optimizer.step(lr, self.options.clip)
        return -float(log_p.sum()) / n

    @property
    def pauses(self) -> bool:
        """Is it the end of an epoch, or before the first update?"""
        return self.logged < 0 or super().pauses

    def pause(self) -> None:
        """A line of the table: how well answers are written that were kept apart, and the other text."""
        start = time.perf_counter()
        valid = self.loss_of_answers()
        seconds = time.perf_counter() - start
        other = self.loss_of_other()
        self.epoch = self.step // self.in_epoch
        mean = float(np.mean(self.losses)) if self.losses else None
        if self.best is None or valid < self.best:
            self.best = valid
            save_adapter(self.model, self.run.folder / ADAPTER, base=self.options.model, overwrite=True)
        self.run.log(step=self.step, epoch=self.epoch, train_loss=mean, valid_loss=valid, other_loss=other)
        self.logged = self.step
        self.losses = []
        self.keep()
        before = "before" if mean is None else f"epoch {self.epoch}, training loss {mean:.4f}"
        tqdm.write(f"{before}: loss {valid:.4f} on what is kept apart, {other:.4f} on {self.options.other}")
        if mean is None:
            whole = FORWARD * seconds * n_tokens(self.train) / n_tokens(self.valid) * self.options.epochs
            where = about_threads() if self.model.device == "cpu" else "the GPU"
            tqdm.write(f"time     {self.total} updates: about {max(1, whole / 60):.0f} minutes on {where}")

    def loss_of_answers(self) -> float:
        """Of what is kept apart, in nats a token of an answer."""
        by_length: Sequence[Example] = sorted(self.valid, key=lambda example: len(example.ids))
        total = 0.0
        for begin in range(0, len(by_length), self.options.batch):
            self.check()
            ids, targets = batch(by_length[begin : begin + self.options.batch])
            log_p, _ = answers_forward(self.model, ids, targets, grad=False)
            total -= float(log_p.sum())
        return self._finite(total / n_targets(self.valid))

    def loss_of_other(self) -> float:
        """Of the other text, in nats a token."""
        total = 0.0
        count = 0
        for ids, targets in self.other:
            self.check()
            loss, _ = self.model.loss(ids, targets, normalizer=1, grad=False)
            total += float(loss)
            count += int((targets >= 0).sum())
        return self._finite(total / count)

    def _finite(self, loss: float) -> float:
        """This loss. Raises InputError where it is none."""
        if not math.isfinite(loss):
            raise InputError(f"update {self.step}: the loss is not finite: {self.advice}")
        return loss

    def keep(self) -> None:
        """Write the file from which the run goes on."""
        state = {
            "step": self.step,
            "logged": self.logged,
            "losses": self.losses,
            "best": self.best,
            "finished": self.finished,
            "options": told(self.options),
            "marks": self.marks,
            "workers": None if self.finished else run_state.workers(),
        }
        self.run.save(self, self.optimizer, state)

    def restore(self, state: dict[str, Any], tensors: dict[str, np.ndarray]) -> None:
        """Go on from what was kept."""
        self.run.restore(self, self.optimizer, state["step"], tensors)
        for name in ("step", "logged", "losses", "best", "finished"):
            setattr(self, name, state[name])
        self.epoch = max(0, self.logged) // self.in_epoch

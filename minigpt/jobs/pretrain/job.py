"""Everything that a training run works with."""

import functools
import math
from dataclasses import asdict, dataclass, field

import numpy as np

from minigpt import models
from minigpt.data.objectives import Objective
from minigpt.device.arrays import to_device
from minigpt.device.overlapped_sums import OverlappedSums
from minigpt.device.parallel import ALONE, Ranks
from minigpt.jobs import run_state
from minigpt.jobs.pretrain import plateau
from minigpt.jobs.pretrain.comparison import Comparison, comparison_of
from minigpt.jobs.pretrain.memory import step_memory
from minigpt.jobs.pretrain.settings import PretrainOptions
from minigpt.jobs.run_folder import Run
from minigpt.models import costs
from minigpt.models.language_model import LanguageModel
from minigpt.nn.optim import Optimizer
from minigpt.ops.cuda.cuda_graph import Recorded
from minigpt.tokenizer import Tokenizer

LINES = 100  # of loss.csv, or more


@dataclass
class Job:
    """A run: its options, data, tokenizer, model and optimiser, and how far it is.

    objective: what the model learns to predict. text_mark: tells on resume whether the text is still the same. starts:
    where windows of train, and of valid, begin if `options.align` is set. logged: the step of the last line of
    loss.csv. losses: those of the updates since then. told_plateau: has the run said that it rests (`plateau`)?
    stopped_by: the number of the signal that ended the work. recorded: forward and backward of a step, where a GPU can
    repeat them. sums: of the gradients of several GPUs, made during the backward pass.
    """

    options: PretrainOptions
    model: LanguageModel
    text: Tokenizer
    train: np.ndarray
    valid: np.ndarray
    objective: Objective
    optimizer: Optimizer
    run: Run
    text_mark: str
    ranks: Ranks = ALONE
    starts: tuple = (None, None)
    step: int = 0
    best: float = math.inf
    logged: int = -1
    losses: list = field(default_factory=list)
    told_plateau: bool = False
    stopped_by: int = 0
    recorded: Recorded | None = None
    sums: OverlappedSums | None = None

    @property
    def rows(self) -> slice:
        """The rows of each batch that this process takes."""
        return self.ranks.rows(self.options.batch, self.options.accumulate)

    @property
    def part(self) -> int:
        """How many of them are computed at a time."""
        return self.options.rows_at_once(self.ranks.size)

    @property
    def products(self) -> str:
        """How products of float32 matrices are computed: "float32" or "tf32"."""
        return "tf32" if self.options.dtype == "tf32" else "float32"

    @functools.cached_property
    def entropy(self) -> float:
        """The loss of a table of token frequencies on the training tokens, in nats per token."""
        return plateau.unigram_entropy(self.train, self.model.config.vocab_size)

    @property
    def in_nats(self) -> bool:
        """Is the loss nats per token, which can be compared with guessing and with this table?"""
        return models.card(self.options.model).loss_in_nats

    @property
    def at_plateau(self) -> bool:
        """Does the training loss stay at that of this table?"""
        return self.in_nats and plateau.is_at_plateau(self.run.rows, self.entropy, self.options.steps)

    @functools.cached_property
    def comparison(self) -> Comparison | None:
        """This run beside the losses of sound ones; None where there are none of its options."""
        return comparison_of(self.state, with_nearest=self.options.compare)

    @functools.cached_property
    def memory(self) -> costs.Memory:
        """Bytes of an update in one process: found once, for a small model is traced for it."""
        return step_memory(self.options, type(self.model), self.model.config, self.ranks)

    @property
    def evaluates(self) -> bool:
        """Is the model evaluated after this step? It is before the first update, too."""
        return self.step % self.options.eval_every == 0 or self.step == self.options.steps

    @property
    def logs(self) -> bool:
        """Does this step have a line in loss.csv?"""
        log_every = max(1, min(self.options.eval_every, self.options.steps // LINES))
        return self.step % log_every == 0 or self.evaluates

    @property
    def finished(self) -> bool:
        """Is everything done, the last evaluation too?"""
        return self.logged == self.options.steps

    @property
    def state(self) -> dict:
        """What is needed, beside the tensors, to go on."""
        options = asdict(self.options)
        del options["resume"], options["compare"], options["out"]  # it may be moved
        kept = self.losses if self.ranks.size == 1 else []  # of several processes each knows only a part
        return {
            "step": self.step,
            "best": self.best,
            "logged": self.logged,
            "losses": [float(loss) for loss in kept],
            "losses_dtype": str(kept[0].dtype) if kept else "float32",
            "told_plateau": self.told_plateau,
            "text": self.text_mark,
            "workers": None if self.finished else run_state.workers(self.ranks.size),
            "options": options,
            "config": self.model.config.to_dict(),
        }

    def set_state(self, state: dict) -> None:
        """Be as far as this state says. A state of an earlier version was kept after a line of loss.csv only."""
        self.step = state["step"]
        self.best = state["best"]
        self.logged = state.get("logged", self.step or -1)
        self.told_plateau = state.get("told_plateau", False)
        if not self.run.exported:  # it was lost: the next one to be evaluated is the best
            self.best = math.inf
        for loss in state.get("losses", []):
            mine = loss if self.ranks.first else 0.0  # they are added
            array = np.array(mine, state["losses_dtype"])
            self.losses.append(to_device(array, self.model.device))

    def save(self) -> None:
        """Keep the run as it stands, so that it can be resumed; the first time take its folder, for the vocabulary too.

        Raises InputError where another run was quicker to take it.
        """
        if self.ranks.first and not self.run.claimed:
            self.run.bring(self.text)
        self.run.save(self.model, self.optimizer, self.state)

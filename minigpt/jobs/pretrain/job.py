"""Everything that a training run works with."""

import math
from dataclasses import asdict, dataclass

import numpy as np

from minigpt.data.objectives import Objective
from minigpt.device.parallel import ALONE, Ranks
from minigpt.jobs.pretrain.settings import PretrainOptions
from minigpt.jobs.run_folder import Run
from minigpt.models import costs
from minigpt.models.language_model import LanguageModel
from minigpt.nn.optim import Optimizer
from minigpt.ops.cuda.cuda_graph import Recorded
from minigpt.tokenizer import Tokenizer


@dataclass
class Job:
    """A run: its options, data, tokenizer, model and optimiser, and how far it is.

    objective: what the model learns to predict. text_mark: tells on resume whether the text is still the same. starts:
    where windows of train, and of valid, begin if `options.align` is set. recorded: forward and backward of a
    step, where a GPU can repeat them.
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
    recorded: Recorded | None = None

    @property
    def rows(self) -> slice:
        """The rows of each batch that this process takes."""
        return self.ranks.rows(self.options.batch, self.options.accumulate)

    @property
    def part(self) -> int:
        """How many of them are computed at a time."""
        return self.options.batch // self.ranks.size // self.options.accumulate

    @property
    def products(self) -> str:
        """How products of float32 matrices are computed: "float32" or "tf32"."""
        return "tf32" if self.options.dtype == "tf32" else "float32"

    @property
    def memory(self) -> costs.Memory:
        """Bytes of an update in one process."""
        model = self.model
        return costs.memory(type(model), model.config, self.part, model.checkpoint_blocks, self.options.low)

    @property
    def state(self) -> dict:
        """What is needed, beside the tensors, to go on."""
        options = asdict(self.options)
        del options["resume"]
        return {
            "step": self.step,
            "best": self.best,
            "text": self.text_mark,
            "options": options,
            "config": self.model.config.to_dict(),
        }

    def save(self) -> None:
        """Keep the run as it stands, so that it can be resumed; the first time take its folder, for the vocabulary too.

        Raises InputError where another run was quicker to take it.
        """
        if self.run.claim():
            self.text.save(self.run.folder)
        self.run.save(self.model, self.optimizer, self.state)

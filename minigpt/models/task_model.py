"""What all models of one task share: the task, who learns, how likely each answer is, and the file beside the body's.

A `Classifier` reads a state of its body by a new head; a `TextClassifier` lets an encoder-decoder write the answer.
"""

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np

from minigpt import ops
from minigpt.data.examples import Task, check_task
from minigpt.device.arrays import Array, to_numpy
from minigpt.errors import InputError
from minigpt.files import checkpoint
from minigpt.models.language_model import LanguageModel
from minigpt.nn import Cache, Module, Parameter

FILE = "classifier.safetensors"
SCORES = 6  # a score from 0 to 5 is a distribution over so many classes (Tai et al. 2015, section 4.2)


LM_WEIGHT = 0.5  # of the auxiliary loss beside the task's (GPT-1 section 4.1)


def usual_lm_weight(body: LanguageModel) -> float:
    """The weight of the auxiliary loss where nothing else is said: none, where a body sees the next token or a source.

    A body with a source has no text of its own beside the answer.
    """
    return LM_WEIGHT if body.learns_the_next_token and not body.reads_a_source else 0.0


def check_lm_weight(body: LanguageModel, lm_weight: float | None) -> None:
    """Raises InputError for an auxiliary loss that this body cannot have."""
    if not lm_weight or usual_lm_weight(body):
        return
    reason = "writes its answer and nothing beside it" if body.reads_a_source else "sees the next token"
    name = type(body).__name__
    raise InputError(f"lm_weight is {lm_weight}: {name} {reason}, so there is nothing to predict: leave it out")


def expected_score(p: np.ndarray) -> np.ndarray:
    """p (N,6), the probabilities of the scores 0 to 5 -> (N,), the expected score (Tai et al. 2015, section 4.2)"""
    scores = np.arange(p.shape[-1], dtype=p.dtype)
    return p @ scores


def score_targets(y: Any) -> tuple[np.ndarray, np.ndarray]:
    """y (N,) from 0 to 5 -> classes (N,2) int64, weights (N,2) float64: a distribution whose expected score is y

    Class floor(y) weighs floor(y) + 1 - y, the next one y - floor(y) (Tai et al. 2015, section 4.2); of 5, all is on 5.
    Raises InputError for a score out of range.
    """
    y = np.asarray(y, np.float64)
    in_range = (y >= 0) & (y <= 5)
    if not in_range.all():
        raise InputError(f"scores from {y.min()} to {y.max()}: give numbers from 0 to 5")
    low = np.minimum(np.floor(y), 4)
    high = low + 1
    classes = np.stack([low, high], axis=-1)
    weights = np.stack([high - y, y - low], axis=-1)
    return classes.astype(np.int64), weights


class FileLayout(NamedTuple):
    """How the files were laid out that a classifier learned from: what `labelled_files.read` was given."""

    task: str
    columns: dict[str, str]


class Losses(NamedTuple):
    """Of a batch, in nats: the task's loss L2, the auxiliary L1, and L3 = L2 + lambda L1, which is made small."""

    task: Array
    lm: Array
    total: Array


class TaskModel(Module):
    """A language model for one task.

    body: with the special tokens in its vocabulary (`transfer`). frozen: does the body stay as it is? files: how the
    files are laid out that it learns from; None where it learns from none. Raises InputError for a task that is none.
    """

    added: ClassVar[tuple[str, ...]] = ()  # the attributes that hold the parameters of the task alone
    loss: Callable[..., tuple[Losses, Cache]]
    loss_backward: Callable[..., None]

    def __init__(self, body: LanguageModel, task: Task):
        check_task(task)
        self.body = body
        self.task = task
        self.frozen = False
        self.files: FileLayout | None = None

    @property
    def kinds(self) -> tuple[str, ...]:
        """The kinds of examples that it can answer."""
        return (self.task.kind,)

    @classmethod
    def transformation(cls, task: Task) -> str:
        """How the texts of an example become sequences: a name of `input_transformations.TRANSFORMATIONS`."""
        return task.kind

    def scores(self, ids: Any, lengths: Any) -> Array:
        """ids (N,S,T), lengths (N,S) -> (N,K): one score for each label or candidate; softmax makes probabilities"""
        raise NotImplementedError

    def probabilities(self, ids: Any, lengths: Any) -> np.ndarray:
        """ids (N,S,T), lengths (N,S) -> (N,K) float64: how likely each label, or each candidate, is the right one"""
        z = to_numpy(self.scores(ids, lengths)).astype(np.float64)
        p, _ = ops.softmax_forward(z)
        return p

    def learned(self) -> Iterator[tuple[str, Parameter]]:
        """(name, parameter) of all that learns: everything, or, with a frozen body, what the task adds."""
        modules = [*self.body.learned_when_frozen(), *self._added_modules()]
        own = {id(parameter) for module in modules for parameter in module.parameters()}
        for name, parameter in self.named_parameters():
            if not self.frozen or id(parameter) in own:
                yield name, parameter

    def targets_of(self, labels: Any) -> tuple[np.ndarray, np.ndarray]:
        """(N,) -> classes (N,J) int and their weights (N,J): J is 2 for scores, which lie between two classes."""
        labels = np.asarray(labels)
        if self.task.scored:
            return score_targets(labels)
        weights = np.ones((len(labels), 1))
        return labels[:, None], weights

    def _added_modules(self) -> list[Module]:
        return [getattr(self, name) for name in self.added]

    def _added_parameters(self) -> dict[str, Parameter]:
        found = {}
        for module in self._added_modules():
            found |= dict(module.named_parameters())
        return found

    # ----------------------------------------------------------------------------------------------------------- files

    def about(self) -> dict[str, Any]:
        """What the file says beside the task, in values that JSON has."""
        return {}

    @classmethod
    def of(cls, body: LanguageModel, task: Task, about: dict[str, Any]) -> Self:
        """The model that a file tells about. Raises KeyError, TypeError or ValueError where it does not."""
        raise NotImplementedError

    def save(self, folder: str | Path, overwrite: bool = False) -> None:
        """Write the body as a model directory of its own, which transformers opens too, and what the task adds beside.

        overwrite: as for the body's own `save`. Raises InputError.
        """
        path = Path(folder) / FILE
        if not overwrite:
            self.body.check_folder(Path(folder))  # before anything is removed
        path.unlink(missing_ok=True)  # never this body with an older head
        self.body.save(folder, overwrite=True)
        tensors = {name: to_numpy(parameter.data) for name, parameter in self._added_parameters().items()}
        about = self.task._asdict() | self.about()
        if self.files is not None:
            about["files"] = self.files._asdict()
        checkpoint.save_tensors(path, tensors, {"task": json.dumps(about)})

    @classmethod
    def load(
        cls, folder: str | Path, body: LanguageModel, choose: Callable[[LanguageModel, str], type] | None = None
    ) -> Self:
        """The model that was saved with this body. Raises InputError where there is none, or another one.

        choose: tells the class that does tasks of a kind with this body, where it may be any.
        """
        path = Path(folder) / FILE
        if not path.is_file():
            raise InputError(f"{folder} holds no {FILE}: give a model that minigpt finetune wrote")
        tensors, about = checkpoint.load_tensors(path)
        try:
            about = json.loads(about["task"])
            task = Task(about["kind"], tuple(about["labels"]), about["metric"], about["positive"])
            kind: Any = choose(body, task.kind) if choose else cls
            model = kind.of(body, task, about)
            if "files" in about:
                files = about["files"]
                model.files = FileLayout(str(files["task"]), dict(files["columns"]))
        except (KeyError, TypeError, ValueError, AttributeError, RecursionError) as error:
            raise InputError(f"{path} was not written by this version of minigpt finetune: {error!r}") from error
        checkpoint.fill(model._added_parameters(), tensors, path)
        return model

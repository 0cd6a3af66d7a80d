"""A model that was published with its task: a body with a head for labels, of a text or of each of its tokens."""

from typing import Any

from minigpt.data.examples import TAGGING, Task
from minigpt.device.arrays import Array, to_device
from minigpt.errors import InputError
from minigpt.models.language_model import LanguageModel
from minigpt.models.task_model import TaskModel
from minigpt.models.token_ids import first_places

KINDS = ("classification", "entailment")  # of a text, or of two


class LabelModel(TaskModel):
    """A body whose file, of a …ForSequenceClassification, has a head for labels.

    It answers; minigpt finetune gives a body a head that learns.

    delimiter: the token between two texts. Raises InputError for a head of a single score, which is no choice between
    labels.
    """

    kinds = KINDS  # no file says which

    def __init__(self, body: LanguageModel, delimiter: int | None = None):
        labels = body.labels
        if len(labels) == 1:
            raise InputError(f"its head gives one number, {labels[0]}, and no labels to choose from: fine-tune it")
        super().__init__(body, Task(KINDS[0], labels))
        self.delimiter = delimiter

    def scores(self, ids: Any, lengths: Any) -> Array:
        """ids (N,1,T), lengths (N,1) -> (N,K): one score for each label"""
        return self.body.label_scores(**_inputs(self, ids, lengths))


class TokenLabelModel(TaskModel):
    """A body whose file, of a …ForTokenClassification, has a head for the labels of tokens. It answers."""

    delimiter = None

    def __init__(self, body: LanguageModel):
        super().__init__(body, Task(TAGGING, body.token_labels, "entity_f1"))

    def scores(self, ids: Any, lengths: Any) -> Array:
        """ids (N,1,T), lengths (N,1) -> (N,T,K): one score for each label at each token"""
        return self.body.token_scores(**_inputs(self, ids, lengths))


def _inputs(model: Any, ids: Any, lengths: Any) -> dict[str, Array]:
    """ids (N,1,T), lengths (N,1) -> what the body is given: ids (N,T), and where there is text, and which one"""
    ids = to_device(ids, model.body.device)[:, 0]
    lengths = to_device(lengths, model.body.device)[:, 0]
    mask = first_places(lengths, ids.shape[1])
    return {"ids": ids, "mask": mask} | model.body.inputs_of(ids, lengths, model.delimiter)

"""A model that was published with its task: a body with a head for labels, as …ForSequenceClassification has it."""

from typing import Any

from minigpt.data.examples import Task
from minigpt.device.arrays import Array, to_device
from minigpt.errors import InputError
from minigpt.models.language_model import LanguageModel
from minigpt.models.task_model import TaskModel
from minigpt.models.token_ids import first_places

KINDS = ("classification", "entailment")  # of a text, or of two


class LabelModel(TaskModel):
    """A body whose file has a head for labels. It answers; minigpt finetune gives a body a head that learns.

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
        ids = to_device(ids, self.body.device)[:, 0]
        lengths = to_device(lengths, self.body.device)[:, 0]
        inputs = {"mask": first_places(lengths, ids.shape[1])} | self.body.inputs_of(ids, lengths, self.delimiter)
        return self.body.label_scores(ids, **inputs)

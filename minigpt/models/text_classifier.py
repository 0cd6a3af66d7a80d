"""T5's claim: every task is text in, text out (Raffel et al. 2020, section 2.4).

There is no head: the decoder writes the answer. The texts of an example are one source. Each possible answer is a short
text, such as the name of a label. The loss is that of writing the right one; of all answers the likeliest is taken.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np

from minigpt import ops
from minigpt.data.examples import TAGGING, Example, Task
from minigpt.device.arrays import Array, array_module, to_device, to_numpy
from minigpt.errors import InputError
from minigpt.models.classifier import Classifier
from minigpt.models.family.encoder_decoder import END, EncoderDecoder
from minigpt.models.language_model import LanguageModel
from minigpt.models.task_model import SCORES, Losses, TaskModel, check_lm_weight
from minigpt.models.token_classifier import TokenClassifier
from minigpt.models.token_ids import first_places
from minigpt.nn import Cache
from minigpt.ops.random_keys import Key
from minigpt.tokenizer import Tokenizer

LETTERS = "abcdefghijklmnopqrstuvwxyz"  # name the candidates of a choice


def answer_texts(task: Task, examples: Sequence[Example]) -> list[str]:
    """What can be answered: the labels; the whole scores from 0 to 5; or a letter for each candidate of a choice.

    Raises InputError for examples with different numbers of candidates, and for more candidates than letters.
    """
    if task.labels:
        return list(task.labels)
    if task.scored:
        return [str(score) for score in range(SCORES)]
    numbers = {len(example.choices) for example in examples}
    if len(numbers) > 1 or max(numbers) > len(LETTERS):
        raise InputError(f"the examples have {sorted(numbers)} candidates: give all as many, at most {len(LETTERS)}")
    return list(LETTERS[: numbers.pop()])


def answer_ids(answers: Sequence[str], text: Tokenizer) -> list[list[int]]:
    """The tokens of each answer, and after them the token that ends what a decoder writes.

    Raises InputError for a tokenizer without that token, and for answers that it does not know or cannot tell apart.
    """
    end = text.role("end")
    if end is None:
        raise InputError(f"the vocabulary has no token {END}: take an encoder-decoder that minigpt train made")
    found = []
    for answer in answers:
        ids = list(text.encode(answer))
        if not ids or text.count_unknown(ids) or ids in found:
            advice = "give labels in words that the text of pre-training has"
            raise InputError(f"the vocabulary cannot write the answer {answer!r}: {advice}")
        found.append(ids)
    return [[*ids, end] for ids in found]


class TextClassifier(TaskModel):
    """An encoder-decoder that reads the texts of an example, and writes its answer.

    answers: the ids of each possible answer, of `answer_ids`. Raises InputError for a body that reads no source, or
    does not say with which token its decoder starts.
    """

    def __init__(self, body: EncoderDecoder, task: Task, answers: Sequence[Sequence[int]]):
        super().__init__(body, task)
        if not body.reads_a_source:
            raise InputError(f"a {type(body).__name__} reads no source to write beside: take Classifier")
        start = body.config.decoder_start_token_id
        if start is None:
            raise InputError("the configuration has no decoder_start_token_id: say which token a decoder starts with")
        self.answers = tuple(tuple(answer) for answer in answers)
        longest = max(map(len, self.answers))
        self.read = np.zeros((len(self.answers), longest), np.int64)  # (K,A) what the decoder sees of each answer
        self.targets = np.full((len(self.answers), longest), ops.IGNORED)  # (K,A) what it has to write
        for k, answer in enumerate(self.answers):
            self.read[k, : len(answer)] = [start, *answer[:-1]]
            self.targets[k, : len(answer)] = answer

    @classmethod
    def transformation(cls, task: Task) -> str:
        """All texts stand in one sequence, whatever the task."""
        return "together"

    def scores(self, ids: Any, lengths: Any) -> Array:
        """ids (N,1,T), lengths (N,1) -> (N,K) float64: the log-probability of each answer, its end included"""
        source, mask = self._source(ids, lengths)
        found = np.zeros((len(source), len(self.answers)))
        for k, targets in enumerate(self.targets):
            n = len(self.answers[k])
            read = np.repeat(self.read[k : k + 1, :n], len(source), axis=0)
            logits, _ = self.body.forward(read, grad=False, source=source, source_mask=mask)
            p, _ = ops.softmax_forward(to_numpy(logits).astype(np.float64))
            of_answer = np.take_along_axis(p, targets[None, :n, None], axis=-1)
            found[:, k] = np.log(of_answer[..., 0]).sum(axis=1)
        return found

    def loss(
        self,
        ids: Any,
        lengths: Any,
        labels: Any,
        lm_weight: float | None = None,
        normalizer: int | None = None,
        key: Key | None = None,
        grad: bool = True,
    ) -> tuple[Losses, Cache]:
        """ids (N,1,T), lengths (N,1), labels (N,) -> the mean over the examples of the mean over the answer's tokens

        labels, normalizer: as for `Classifier.loss`. lm_weight: 0 or None, since nothing but the answer is written.
        Raises InputError for another one.
        """
        check_lm_weight(self.body, lm_weight)
        classes, weights = self.targets_of(labels)  # (N,J)
        n_answers = classes.shape[1]
        source, mask = self._source(ids, lengths)
        read = self.read[classes.reshape(-1)]  # (N J,A)
        targets = self.targets[classes.reshape(-1)]
        written = targets != ops.IGNORED
        shares = written * weights.reshape(-1, 1) / written.sum(axis=1, keepdims=True)
        cache = Cache(self, grad)
        loss = cache.keep("body", self.body.loss(
            read, targets, normalizer or len(classes), shares, key, grad,
            source=source.repeat(n_answers, axis=0), source_mask=mask.repeat(n_answers, axis=0),
        ))  # fmt: skip
        return Losses(loss, array_module(loss).zeros_like(loss), loss), cache

    def loss_backward(self, cache: Cache, dloss: float = 1.0) -> None:
        """The gradient of dloss * loss arrives in the parameters."""
        cache = self.own(cache)
        self.body.loss_backward(cache.pop("body"), dloss)

    def _source(self, ids: Any, lengths: Any) -> tuple[Array, Array]:
        """ids (N,1,T), lengths (N,1) -> source (N,T), and a mask (N,T) that is True where there is text"""
        ids = to_device(ids, self.body.device)[:, 0]
        lengths = to_device(lengths, self.body.device)[:, 0]
        return ids, first_places(lengths, ids.shape[-1])

    def about(self) -> dict[str, Any]:
        """The tokens of its answers."""
        return {"answers": [list(answer) for answer in self.answers]}

    @classmethod
    def of(cls, body: LanguageModel, task: Task, about: dict[str, Any]) -> "TextClassifier":
        """The model that a file tells about."""
        answers = [[int(i) for i in answer] for answer in about["answers"]]
        if not answers or not all(answers) or not all(0 <= i < body.config.vocab_size for ids in answers for i in ids):
            raise ValueError(f"its answers are {str(answers)[:60]}")
        assert isinstance(body, EncoderDecoder), "see kind_for"
        return cls(body, task, answers)


def kind_for(body: LanguageModel, kind: str = "") -> type[TaskModel]:
    """How a model does tasks of this kind: an encoder-decoder writes, all others have a head.

    Raises InputError for labels of words that would have to be written.
    """
    if kind == TAGGING and body.reads_a_source:
        name = type(body).__name__
        raise InputError(f"a {name} writes its answers, and labels of words need a head: take a bert, or a gpt2")
    if body.reads_a_source:
        return TextClassifier
    return TokenClassifier if kind == TAGGING else Classifier

"""GPT-1's claim: a pre-trained model and one linear layer more do any of four kinds of task (GPT-1 section 3.2).

    body        a language model whose vocabulary has three more rows, for the special tokens
    head        h at the extract token -> scores: the only other new parameters

One backward pass goes through head and body, for the task's loss and for the auxiliary one together.
"""

import json
from collections.abc import Iterator
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from minigpt import ops
from minigpt.data.examples import Task, check_task
from minigpt.device.arrays import Array, array_module, to_device, to_numpy
from minigpt.errors import InputError
from minigpt.files import checkpoint
from minigpt.models.language_model import LanguageModel
from minigpt.nn import Cache, Linear, Module, Parameter, accumulate
from minigpt.ops.random_keys import Key, fold

FILE = "classifier.safetensors"
SCORES = 6  # a score from 0 to 5 is a distribution over so many classes (Tai et al. 2015, section 4.2)


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


class ScoresCache(NamedTuple):
    """What the backward of the head needs: the shape of h, how long each sequence is, and the dropout mask."""

    shape: tuple[int, ...]
    lengths: Array
    n_sequences: int
    mask: Array
    head: Cache


LM_WEIGHT = 0.5  # of the auxiliary loss beside the task's (GPT-1 section 4.1)


def check_body(body: LanguageModel, lm_weight: float | None = None) -> None:
    """Raises InputError for a body that reads a source, and for an auxiliary loss of one that predicts no next token.

    lm_weight: of that loss, where it was given.
    """
    name = type(body).__name__
    if body.reads_a_source:
        advice = "take a model that reads one text, such as gpt1, gpt2, lstm or bert"
        raise InputError(f"a {name} writes beside a source, and cannot be fine-tuned here: {advice}")
    if lm_weight and not body.learns_the_next_token:
        raise InputError(f"lm_weight is {lm_weight}: {name} sees the next token, so there is nothing to predict: "
                         "leave it out")  # fmt: skip


def usual_lm_weight(body: LanguageModel) -> float:
    """The weight of the auxiliary loss where nothing else is said: none, where a body sees the next token."""
    return LM_WEIGHT if body.learns_the_next_token else 0.0


def outputs(task: Task) -> int:
    """How many scores the head gives for a state: one for each label, or one for a candidate."""
    if task.scored:
        return SCORES
    return len(task.labels) or 1


class Classifier(Module):
    """A language model with a head for one task.

    body: with the special tokens in its vocabulary (`transfer`); dropout: on the state that the head reads; seed: of
    the head's weights, N(0, 0.02), with a bias of 0 as in OpenAI's code; None leaves them zero, to be filled.
    delimiter: the token between two texts, for a body with segments. frozen: does the body stay as it is? files: how
    the files are laid out that it learns from; None where it learns from none. Raises InputError as `check_body` does.
    """

    def __init__(
        self,
        body: LanguageModel,
        task: Task,
        dropout: float = 0.1,
        seed: int | None = 0,
        delimiter: int | None = None,
    ):
        check_task(task)
        check_body(body)
        rng = None
        if seed is not None:
            rng = np.random.default_rng([seed, 1])
        self.body = body
        self.task = task
        self.dropout = dropout
        self.delimiter = delimiter
        self.frozen = False
        self.files: FileLayout | None = None
        dtype = body.head.data.dtype
        self.head = Linear(body.state_width, outputs(task), rng, 0.02, dtype)

    def forward(self, ids: Any, lengths: Any, key: Key | None = None, grad: bool = True) -> tuple[Array, Cache]:
        """ids (N,S,T) int, lengths (N,S) int -> scores (N,K) of the labels, or of the S candidates

        A sequence ends with its extract token, at lengths - 1, whose state the head reads; of a body that sees both
        sides it reads the first one. The S states of a similarity are added; those of a multiple choice share one
        dropout mask. key: switches dropout on.
        """
        cache = Cache(self, grad)
        lengths = to_device(lengths, self.body.device)
        h = cache.keep("body", self._hidden(ids, lengths, key, grad))
        scores = cache.keep("scores", self._scores(h, lengths, fold(key, 1)))
        return scores, cache

    def backward(self, dscores: Array, cache: Cache) -> None:
        """dscores (N,K) -> nothing: the gradients arrive in the parameters"""
        cache = self.own(cache)
        dh = self._scores_backward(dscores, cache.pop("scores"))
        self._body_backward(dh, cache.pop("body"))

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
        """ids (N,S,T), lengths (N,S), labels (N,) -> L3 = L2 + lm_weight L1 (GPT-1 equations 4 and 5)

        labels: int, or float scores from 0 to 5 where the task has none. L2 is the mean cross-entropy of the answers;
        L1 the mean over all sequences of the mean over their tokens: each token after the start is predicted, the
        special ones too. lm_weight: None is 0.5, or 0 for a body that sees the next token. normalizer: the number of
        examples in the whole batch, where this is a part of it. Raises InputError as `check_body` does.
        """
        if lm_weight is None:
            lm_weight = usual_lm_weight(self.body)
        check_body(self.body, lm_weight)
        normalizer = normalizer or len(ids)
        device = self.body.device
        ids = to_device(ids, device)
        lengths = to_device(lengths, device)
        targets, weights = self._targets(labels)
        targets = to_device(targets, device)
        weights = to_device(weights, device)
        xp = array_module(ids)
        cache = Cache(self, grad)
        h = cache.keep("body", self._hidden(ids, lengths, key, grad))

        scores = cache.keep("scores", self._scores(h, lengths, fold(key, 1)))
        n_targets = targets.shape[1]
        repeated = xp.repeat(scores[:, None], n_targets, axis=1)
        task = ops.cross_entropy_forward(repeated, targets, weights=weights, normalizer=normalizer)
        task_loss = cache.keep("task", task)
        cache.several_targets = n_targets > 1

        lm_loss = xp.zeros_like(task_loss)
        cache.lm_weight = lm_weight
        if lm_weight:
            following, shares = _next_tokens(ids, lengths, h.dtype)
            n_sequences = normalizer * ids.shape[1]
            lm = ops.linear_cross_entropy_forward(
                h,
                self.body.head.value,
                following,
                weights=shares,
                normalizer=n_sequences,
                grad=grad,
            )
            lm_loss = cache.keep("lm", lm)
        total = task_loss + lm_weight * lm_loss
        return Losses(task_loss, lm_loss, total), cache

    def loss_backward(self, cache: Cache, dloss: float = 1.0) -> None:
        """The gradient of dloss * L3 arrives in the parameters: two streams meet in h and go back as one."""
        cache = self.own(cache)
        drepeated = ops.cross_entropy_backward(dloss, cache.pop("task"))
        dscores = drepeated.sum(axis=1) if cache.several_targets else drepeated[:, 0]
        dh_lm = None
        if cache.lm_weight:
            dh_lm, dw, _ = ops.linear_cross_entropy_backward(dloss * cache.lm_weight, cache.pop("lm"))
            accumulate(self.body.head, dw)
        dh = self._scores_backward(dscores, cache.pop("scores"))
        if dh_lm is not None:
            dh += dh_lm
        self._body_backward(dh, cache.pop("body"))

    def _body_backward(self, dh: Array, cache: Cache) -> None:
        if self.frozen:
            self.body.frozen_backward(dh, cache)
        else:
            self.body.hidden_backward(dh, cache)

    def learned(self) -> Iterator[tuple[str, Parameter]]:
        """(name, parameter) of all that learns: everything, or, with a frozen body, the head and what a task adds."""
        own = {id(parameter) for module in self.body.learned_when_frozen() for parameter in module.parameters()}
        own |= {id(parameter) for parameter in self.head.parameters()}
        for name, parameter in self.named_parameters():
            if not self.frozen or id(parameter) in own:
                yield name, parameter

    def _hidden(self, ids: Array, lengths: Array, key: Key | None, grad: bool) -> tuple[Array, Cache]:
        """ids (N,S,T), lengths (N,S) -> h (N*S,T,C)"""
        rows = ids.reshape(-1, ids.shape[-1])
        inputs = self.body.inputs_of(rows, lengths.reshape(-1), self.delimiter)
        key = None if self.frozen else fold(key, 0)  # what stays as it is gives the same features each time
        return self.body.hidden(rows, None, key, grad, **inputs)

    def _scores(self, h: Array, lengths: Array, key: Key | None) -> tuple[Array, ScoresCache]:
        """h (N*S,T,C), lengths (N,S) -> scores (N,K)"""
        xp = array_module(h)
        states = self.body.summary(h, lengths.reshape(-1))
        states = states.reshape(*lengths.shape, -1)
        if self.task.kind == "similarity":
            states = states.sum(axis=1, keepdims=True)
        ones = xp.ones((len(states), 1, states.shape[-1]), h.dtype)
        mask, _ = ops.dropout_forward(ones, rate=self.dropout, key=key)  # one for all candidates of an example
        scores, head = self.head.forward(states * mask)
        n_sequences = lengths.shape[1]
        cache = ScoresCache(h.shape, lengths.reshape(-1), n_sequences, mask, head)
        return scores.reshape(len(states), -1), cache

    def _scores_backward(self, dscores: Array, cache: ScoresCache) -> Array:
        """dscores (N,K) -> dh (N*S,T,C), which is 0 except where a state was read"""
        shape, lengths, n_sequences, mask, head = cache
        xp = array_module(dscores)
        # scores = head(states * mask)
        n_outputs = len(self.head.bias.data)
        dscores = dscores.reshape(len(dscores), -1, n_outputs)
        dstates = self.head.backward(dscores, head)
        dstates = dstates * mask
        # states = states.sum(axis=1): each of the terms gets the whole gradient
        if self.task.kind == "similarity":
            dstates = xp.repeat(dstates, n_sequences, axis=1)
        # states = summary(h)
        return self.body.summary_backward(dstates.reshape(-1, shape[-1]), shape, lengths)

    def _targets(self, labels: Any) -> tuple[np.ndarray, np.ndarray]:
        """(N,) -> classes (N,J) int and their weights (N,J): J is 2 for scores, which lie between two classes."""
        labels = np.asarray(labels)
        if self.task.scored:
            return score_targets(labels)
        weights = np.ones((len(labels), 1))
        return labels[:, None], weights

    def probabilities(self, ids: Any, lengths: Any) -> np.ndarray:
        """ids (N,S,T), lengths (N,S) -> (N,K) float64: how likely each label, or each candidate, is the right one"""
        scores, _ = self.forward(ids, lengths, grad=False)
        z = to_numpy(scores).astype(np.float64)
        p, _ = ops.softmax_forward(z)
        return p

    def save(self, folder: str | Path, overwrite: bool = False) -> None:
        """Write the body as a model directory of its own, which transformers opens too, and the head beside it.

        overwrite: as for the body's own `save`. Raises InputError.
        """
        path = Path(folder) / FILE
        if not overwrite:
            self.body.check_folder(Path(folder))  # before anything is removed
        path.unlink(missing_ok=True)  # never this body with an older head
        self.body.save(folder, overwrite=True)
        tensors = {}
        for name, parameter in self.head.named_parameters():
            tensors[name] = to_numpy(parameter.data)
        about = self.task._asdict() | {"dropout": self.dropout}
        if self.delimiter is not None:
            about["delimiter"] = self.delimiter
        if self.files is not None:
            about["files"] = self.files._asdict()
        checkpoint.save_tensors(path, tensors, {"task": json.dumps(about)})

    @classmethod
    def load(cls, folder: str | Path, body: LanguageModel) -> "Classifier":
        """The classifier that was saved with this body. Raises InputError where there is none, or another one."""
        path = Path(folder) / FILE
        if not path.is_file():
            raise InputError(f"{folder} holds no {FILE}: give a model that minigpt finetune wrote")
        tensors, about = checkpoint.load_tensors(path)
        try:
            about = json.loads(about["task"])
            task = Task(about["kind"], tuple(about["labels"]), about["metric"], about["positive"])
            delimiter = about.get("delimiter")
            model = cls(body, task, _checked_rate(about["dropout"]), seed=None, delimiter=delimiter)
            if "files" in about:
                files = about["files"]
                model.files = FileLayout(str(files["task"]), dict(files["columns"]))
        except (KeyError, TypeError, ValueError, AttributeError, RecursionError) as error:
            raise InputError(f"{path} was not written by this version of minigpt finetune: {error!r}") from error
        parameters = dict(model.head.named_parameters())
        checkpoint.fill(parameters, tensors, path)
        return model


def _checked_rate(rate: Any) -> float:
    """A rate of dropout. Raises ValueError for what is none."""
    if isinstance(rate, bool) or not isinstance(rate, int | float) or not 0 <= rate < 1:
        raise ValueError(f"its dropout is {str(rate)[:60]}")
    return rate


def _next_tokens(ids: Array, lengths: Array, dtype) -> tuple[Array, Array]:
    """ids (N,S,T), lengths (N,S) -> targets (N*S,T) int, and the share of each target in its own sequence (N*S,T)

    Every token predicts the next one of its sequence; after the last there is nothing to predict.
    """
    xp = array_module(ids)
    t = ids.shape[-1]
    n_targets = lengths.reshape(-1, 1) - 1
    following = xp.roll(ids, -1, axis=-1).reshape(-1, t)
    has_a_next = xp.arange(t) < n_targets
    following = xp.where(has_a_next, following, ops.IGNORED)
    shares = xp.broadcast_to(1 / n_targets, following.shape)
    return following, shares.astype(dtype)


def check_layers(body: LanguageModel, layers: int | None) -> None:
    """Raises InputError for a number of layers that `transfer` cannot take over from this model."""
    n_layer = body.config.n_layer
    if layers is not None and not -1 <= layers <= n_layer:
        raise InputError(f"--transfer {layers}: this model has {n_layer} layers: choose -1 (nothing) to {n_layer}")


def transfer(
    body: LanguageModel,
    new_rows: int,
    layers: int | None = None,
    dropout: float | None = None,
    seed: int = 0,
) -> LanguageModel:
    """A model that begins where a pre-trained one ended, with new rows at the end of its vocabulary.

    The new rows, and all that is not taken over, are drawn as a fresh model draws them: from N(0, 0.02) in GPT-1.
    layers: take over the embeddings and so many blocks (GPT-1 figure 2, left); -1: nothing at all; None: everything.
    dropout: the rate at all places of the body, or None: as before. Raises InputError for more layers than there are.
    """
    changes = {"vocab_size": body.config.vocab_size + new_rows}
    if dropout is not None:
        for name in asdict(body.config):
            if name.endswith("_pdrop"):
                changes[name] = dropout
    check_layers(body, layers)
    if layers is None:
        layers = body.config.n_layer
    config = replace(body.config, **changes)
    model = type(body)(config, seed=seed, dtype=body.head.data.dtype)
    taken = dict(body.named_parameters())
    for name, parameter in model.named_parameters():
        if model.layers_of(name) <= layers:
            old = to_numpy(taken[name].data)
            parameter.data[: len(old)] = old
    return model

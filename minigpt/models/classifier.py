"""GPT-1's claim: a pre-trained model and one linear layer more do any of four kinds of task (GPT-1 section 3.2).

    body        a language model whose vocabulary has three more rows, for the special tokens
    head        h at the extract token -> scores: the only other new parameters

One backward pass goes through head and body, for the task's loss and for the auxiliary one together.
"""

from dataclasses import asdict, replace
from typing import Any, NamedTuple

import numpy as np

from minigpt import ops
from minigpt.data.examples import Task
from minigpt.device.arrays import Array, array_module, to_device, to_numpy
from minigpt.errors import InputError
from minigpt.models.language_model import LanguageModel
from minigpt.models.task_model import SCORES, Losses, TaskModel, check_lm_weight, usual_lm_weight
from minigpt.nn import Cache, Linear, accumulate
from minigpt.ops.random_keys import Key, fold


class ScoresCache(NamedTuple):
    """What the backward of the head needs: the shape of h, how long each sequence is, and the dropout mask."""

    shape: tuple[int, ...]
    lengths: Array
    n_sequences: int
    mask: Array
    head: Cache


def outputs(task: Task) -> int:
    """How many scores the head gives for a state: one for each label, or one for a candidate."""
    if task.scored:
        return SCORES
    return len(task.labels) or 1


class Classifier(TaskModel):
    """A language model with a head for one task.

    body: with the special tokens in its vocabulary (`transfer`); dropout: on the state that the head reads; seed: of
    the head's weights, N(0, 0.02), with a bias of 0 as in OpenAI's code; None leaves them zero, to be filled.
    delimiter: the token between two texts, for a body with segments. Raises InputError for a body that reads a source.
    """

    added = ("head",)

    def __init__(
        self,
        body: LanguageModel,
        task: Task,
        dropout: float = 0.1,
        seed: int | None = 0,
        delimiter: int | None = None,
    ):
        super().__init__(body, task)
        if body.reads_a_source:
            raise InputError(f"a {type(body).__name__} writes its answer beside a source: take TextClassifier")
        rng = None
        if seed is not None:
            rng = np.random.default_rng([seed, 1])
        self.dropout = dropout
        self.delimiter = delimiter
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

    def scores(self, ids: Any, lengths: Any) -> Array:
        """ids (N,S,T), lengths (N,S) -> scores (N,K), as `forward` without a cache"""
        found, _ = self.forward(ids, lengths, grad=False)
        return found

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
        examples in the whole batch, where this is a part of it. Raises InputError as `check_lm_weight` does.
        """
        if lm_weight is None:
            lm_weight = usual_lm_weight(self.body)
        check_lm_weight(self.body, lm_weight)
        normalizer = normalizer or len(ids)
        device = self.body.device
        ids = to_device(ids, device)
        lengths = to_device(lengths, device)
        targets, weights = self.targets_of(labels)
        targets = to_device(targets, device)
        weights = to_device(weights, device)
        xp = array_module(ids)
        cache = Cache(self, grad)
        h = cache.keep("body", self._hidden(ids, lengths, key, grad))

        scores = cache.keep("scores", self._scores(h, lengths, fold(key, 1)))
        asked = self._asked(scores, targets)
        task = ops.cross_entropy_forward(asked, targets, weights=weights, normalizer=normalizer)
        task_loss = cache.keep("task", task)

        lm_loss = xp.zeros_like(task_loss)
        cache.lm_weight = lm_weight  # type: ignore[attr-defined]
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
        dscores = self._asked_backward(ops.cross_entropy_backward(dloss, cache.pop("task")))
        dh_lm = None
        if cache.lm_weight:
            dh_lm, dw, _ = ops.linear_cross_entropy_backward(dloss * cache.lm_weight, cache.pop("lm"))
            accumulate(self.body.head, dw)
        dh = self._scores_backward(dscores, cache.pop("scores"))
        if dh_lm is not None:
            dh += dh_lm
        self._body_backward(dh, cache.pop("body"))

    def _asked(self, scores: Array, targets: Array) -> Array:
        """scores (N,K), targets (N,J) -> (N,J,K): the scores of an example, once for each of its targets"""
        return array_module(scores).repeat(scores[:, None], targets.shape[1], axis=1)

    def _asked_backward(self, dasked: Array) -> Array:
        """dasked (N,J,K) -> dscores (N,K)"""
        return dasked.sum(axis=1)

    def _body_backward(self, dh: Array, cache: Cache) -> None:
        if self.frozen:
            self.body.frozen_backward(dh, cache)
        else:
            self.body.hidden_backward(dh, cache)

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
        _, n_outputs = self.head.weight.data.shape
        dscores = dscores.reshape(len(dscores), -1, n_outputs)
        dstates = self.head.backward(dscores, head)
        dstates = dstates * mask
        # states = states.sum(axis=1): each of the terms gets the whole gradient
        if self.task.kind == "similarity":
            dstates = xp.repeat(dstates, n_sequences, axis=1)
        # states = summary(h)
        return self.body.summary_backward(dstates.reshape(-1, shape[-1]), shape, lengths)

    # ----------------------------------------------------------------------------------------------------------- files

    def about(self) -> dict[str, Any]:
        """Its dropout, and the token between two texts."""
        if self.delimiter is None:
            return {"dropout": self.dropout}
        return {"dropout": self.dropout, "delimiter": self.delimiter}

    @classmethod
    def of(cls, body: LanguageModel, task: Task, about: dict[str, Any]) -> "Classifier":
        """The classifier that a file tells about, its head still zero."""
        return cls(body, task, _checked_rate(about["dropout"]), seed=None, delimiter=about.get("delimiter"))


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

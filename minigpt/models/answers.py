"""The log-probability of an answer, and its way back: tuning on instructions raises it, preferences compare two.

    log_p, cache = answers_forward(model, ids, targets)      # of each text the sum over its targets
    answers_backward(dlog_p, cache)

Only the states that have a target go through the head. Of a text with a long question that is a small part.
"""

from typing import Any, NamedTuple

from minigpt import ops
from minigpt.device.arrays import Array, array_module, to_numpy
from minigpt.models.language_model import LanguageModel
from minigpt.models.lora import lora_layers
from minigpt.nn import Cache, accumulate
from minigpt.ops.random_keys import Key


class AnswersCache(NamedTuple):
    """What the way back needs. place (N,T): where there is a target; texts: the cross-entropy of each text."""

    model: LanguageModel
    hidden: Cache
    place: Array
    head: Any
    texts: list[Any]


def answers_forward(
    model: LanguageModel, ids: Array, targets: Array, key: Key | None = None, grad: bool = True
) -> tuple[Array, AnswersCache | None]:
    """ids (N,T), targets (N,T) int -> log_p (N,), how likely each text makes its answer, in nats

    log_p[n] = sum_t log softmax(logits[n,t])[targets[n,t]], over the targets that are not -100. key: switches dropout
    on. grad=False keeps nothing for a backward. Raises InputError as `LanguageModel.loss` does.
    """
    h, hidden = model.hidden(ids, key=key, grad=grad)
    targets, _ = model.place_targets(targets, None, h.shape[:2])
    xp = array_module(h)
    place = targets != ops.IGNORED
    y = targets[place]
    logits, head = ops.linear_forward(h[place], model.head.value.T)
    log_p = xp.zeros(len(h), h.dtype)
    texts = []
    begin = 0
    for n, length in enumerate(to_numpy(place.sum(axis=1)).tolist()):
        end = begin + length
        loss, text = ops.cross_entropy_forward(logits[begin:end], y[begin:end], normalizer=1.0)
        log_p[n] = -loss
        texts.append(text)
        begin = end
    return log_p, AnswersCache(model, hidden, place, head, texts) if grad else None


def answers_backward(dlog_p: Array, cache: AnswersCache) -> None:
    """dlog_p (N,) -> nothing: the gradients arrive in the parameters. Of a model with adapters the head is frozen."""
    model, hidden, place, head, texts = cache
    xp = array_module(place)
    # log_p[n] = -cross_entropy(logits of text n)
    of_texts = [ops.cross_entropy_backward(-dlog_p[n], text) for n, text in enumerate(texts)]
    dlogits = xp.concatenate(of_texts)
    # logits = states w^T
    if lora_layers(model):
        dstates, _ = ops.linear_forward(dlogits, model.head.value)
    else:
        dstates, dw_t, _ = ops.linear_backward(dlogits, head)
        accumulate(model.head, dw_t.T)
    # states = h[place]
    dh = xp.zeros((*place.shape, dstates.shape[-1]), dstates.dtype)
    dh[place] = dstates
    model.hidden_backward(dh, hidden)

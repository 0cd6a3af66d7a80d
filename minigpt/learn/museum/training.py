"""What a mistake does to a model: a small one trains on a verse with the pairs of a file, and the losses are kept."""

import math
import types
from typing import Any, NamedTuple

import numpy as np

from minigpt import ops
from minigpt.learn.museum.model import ModelOfFunctions
from minigpt.learn.museum.source import WHOLE_MODEL
from minigpt.learn.verse import VOCABULARY, Training
from minigpt.models.family.llama import Llama, LlamaConfig
from minigpt.models.family.t5 import T5, T5Config
from minigpt.models.gpt1 import GPT1Config
from minigpt.models.gpt2 import GPT2, GPT2Config
from minigpt.models.lstm import LSTM, LSTMConfig

STEPS, CONTEXT, WIDTH, DROPOUT = 120, 10, 24, 0.1
TRAINING = Training(steps=STEPS, batch=4, context=CONTEXT, rate=1e-2, warmup=10)
LAST = 10  # updates over which a final loss is averaged
AGREES = 1e-6  # relative difference of two curves that are the same but for rounding
CERTAIN = 4.0  # the logit of the right answer of a teacher; all others are 0
TEMPERATURE = 2.0
OF_T5 = ("rmsnorm", "cross_attention")
OF_LLAMA = ("rope", "gated_mlp")
IN_PLACE_OF_GELU = ("gelu_exact", "relu", "silu")


class Curve(NamedTuple):
    """losses: one for each update, NaN from where it could not go on; problem: why, or ""."""

    losses: list[float]
    problem: str

    @property
    def last(self) -> float:
        """The mean of the last losses; infinite where there are none."""
        mean = sum(self.losses[-LAST:]) / LAST
        return mean if math.isfinite(mean) else math.inf

    def agrees(self, other: "Curve") -> bool:
        """The same losses but for rounding, up to the end?"""
        return bool(np.allclose(self.losses, other.losses, rtol=AGREES, atol=0))


def shown_by(op: str) -> str:
    """The name of the small model that shows a mistake in this operation."""
    if op in OF_T5:
        return "T5"
    if op in OF_LLAMA:
        return "LLaMA"
    if op == WHOLE_MODEL:
        return "GPT-1"
    return "LSTM" if op == "lstm" else "GPT-2"


def curve(op: str, file: Any) -> Curve:
    """The losses of a small model that trains with the two passes of a file, whatever they are.

    file: has them as attributes, such as `gelu_forward` and `gelu_backward`, or `model_forward` and `model_backward`.
    """
    losses: list[float] = []
    problem = ""
    try:
        model = _model(op, file, len(VOCABULARY))
        with ops.using("reference" if op == WHOLE_MODEL else _in_use(op, file)), np.errstate(all="ignore"):
            _train(model, losses, reads=op in OF_T5)
    except Exception as error:  # a wrong pass may give anything
        problem = f"{type(error).__name__}: {error}"
    return Curve(losses + [math.nan] * (STEPS - len(losses)), problem)


def _model(op: str, file: Any, vocab_size: int):
    rates = dict.fromkeys(("embd_pdrop", "attn_pdrop", "resid_pdrop"), DROPOUT)
    sizes = {"vocab_size": vocab_size, "n_positions": CONTEXT, "n_embd": WIDTH, "n_layer": 1}
    if op == WHOLE_MODEL:
        return ModelOfFunctions(file, GPT1Config(**sizes, **rates, n_head=2), dtype=np.float64)
    if op == "lstm":
        return LSTM(LSTMConfig(**sizes), seed=0, dtype=np.float64)
    if op in OF_T5:
        return T5(T5Config(**sizes, n_head=2, d_kv=WIDTH // 2, d_ff=4 * WIDTH), seed=0, dtype=np.float64)
    if op in OF_LLAMA:  # half of a head's columns turn
        return Llama(LlamaConfig(**sizes, n_head=2, n_inner=4 * WIDTH, rotary_share=0.5), seed=0, dtype=np.float64)
    return GPT2(GPT2Config(**sizes, **rates, n_head=2), seed=0, dtype=np.float64)


def _train(model, losses, reads: bool) -> None:
    def inputs(step, windows):
        source = {"source": windows[:, 1:]} if reads else {}
        return {"key": ops.Key.of(0, step)} | source

    for loss in TRAINING.losses(model, inputs):
        losses.append(loss)
        if not math.isfinite(loss):
            return


# --- operations that a small model does not call by themselves -------------------------------------------------------


def _in_use(op: str, file: Any) -> Any:
    """The pair as a model calls it; softmax and the losses of a teacher stand inside of other operations here."""
    forward, backward = getattr(file, f"{op}_forward"), getattr(file, f"{op}_backward")
    if op in IN_PLACE_OF_GELU:
        return types.SimpleNamespace(gelu_forward=forward, gelu_backward=backward)
    if op == "softmax":
        pairs = _attention_with(forward, backward)
        return types.SimpleNamespace(attention_forward=pairs[0], attention_backward=pairs[1])
    if op in ("soft_cross_entropy", "cosine_loss"):
        inside = _taught_by_logits if op == "soft_cross_entropy" else _pointing_at_words
        pairs = inside(forward, backward)
        return types.SimpleNamespace(linear_cross_entropy_forward=pairs[0], linear_cross_entropy_backward=pairs[1])
    return types.SimpleNamespace(**{f"{op}_forward": forward, f"{op}_backward": backward})


def _attention_with(softmax_forward, softmax_backward):
    """Causal attention that calls a softmax."""

    def forward(q, k, v, bias=None, *, mask=None, scale=None, rate=0.0, key=None):
        hidden = ~ops.causal_mask(q.shape[-2], k.shape[-2], np)
        scale = 1 / math.sqrt(q.shape[-1])
        p, cache = softmax_forward(q @ k.swapaxes(-1, -2) * scale - 1e9 * hidden)
        return p @ v, (q, k, v, p, scale, cache)

    def backward(dout, cache):
        q, k, v, p, scale, cache = cache
        ds = softmax_backward(dout @ v.swapaxes(-1, -2), cache) * scale
        return ds @ k, ds.swapaxes(-1, -2) @ q, p.swapaxes(-1, -2) @ dout

    return forward, backward


def _taught_by_logits(loss_forward, loss_backward):
    """A head whose loss is that of a teacher, who is nearly sure of the right word."""

    def forward(h, w, targets, bias=None, *, weights=None, normalizer=None, grad=True):
        logits, head = ops.linear_forward(h, w.T, None)
        teacher = CERTAIN * np.eye(len(w))[targets]
        loss, cache = loss_forward(logits, teacher, temperature=TEMPERATURE)
        return loss, (head, cache)

    def backward(dloss, cache):
        head, cache = cache
        dlogits, _ = loss_backward(dloss, cache)
        dh, dw, _ = ops.linear_backward(dlogits, head)
        return dh, dw.T

    return forward, backward


def _pointing_at_words(loss_forward, loss_backward):
    """A head whose loss is the cross-entropy, and how far h points away from the vector of the right word."""

    def forward(h, w, targets, bias=None, *, weights=None, normalizer=None, grad=True):
        logits, head = ops.linear_forward(h, w.T, None)
        loss, cross_entropy = ops.cross_entropy_forward(logits, targets)
        words, embedding = ops.embedding_forward(w, targets)
        distance, cache = loss_forward(h, words)
        return loss + distance, (head, cross_entropy, embedding, cache)

    def backward(dloss, cache):
        head, cross_entropy, embedding, cache = cache
        dh, dw, _ = ops.linear_backward(ops.cross_entropy_backward(dloss, cross_entropy), head)
        dh_of_distance, dwords = loss_backward(dloss, cache)
        return dh + dh_of_distance, dw.T + ops.embedding_backward(dwords, embedding)

    return forward, backward

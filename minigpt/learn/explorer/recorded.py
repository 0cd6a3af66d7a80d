"""A recorded pass, for a model whose weights no page can hold: computed here, and what the page shows of it.

    {"name", "title": {"en", "ko"}, "config",
     "tokens": [{"id", "text"}], "targets": [id or -100], "loss",
     "dtype": "float16", "numbers": packed numbers of all tensors,
     "values": [{"name", "kind": "activation", "shape",
                 "value": {"offset", "scale"}, "gradient": {"offset", "scale"},   both null where only norms are kept
                 "norm": [a number for each position], "gradient_norm": [the same]}],
     "parameters": [{"name", "shape", "norm", "gradient_norm"}],
     "lens": [{"name": of the stream, "top": for each position [[id, probability], ...]}],
     "top": the same of the logits; first the most probable token, and at the end the target where it is not among them,
     "labels": {id: text, of all ids in these lists}}

A number of a tensor is that of `numbers`, times the tensor's scale. Scores of the future are -Infinity there too.
"""

from typing import Any, NamedTuple

import numpy as np

from minigpt import ops
from minigpt.learn.explorer import packing
from minigpt.learn.explorer.named_pass import IGNORED, NamedPass, Value, named_pass, stream_names
from minigpt.models.language_model import LanguageModel
from minigpt.tokenizer import Tokenizer

DTYPE = "float16"
BUDGET = 2_500_000  # numbers of tensors that are kept whole: about 5 MB of a page
TOP = 10  # most probable tokens
WANTED = ("attn.p", "attn.heads", "x", "ln_2", "attn.s", "x_attn", "attn", "mlp", "x_mlp", "ln_1", "attn.qkv")

Rows = list[list[tuple[int, float]]]  # for each position: token ids and their probabilities


class Kept(NamedTuple):
    """Where a tensor stands among the packed numbers, and by what they are to be multiplied."""

    offset: int
    scale: float


class Numbers:
    """The numbers of many tensors, one after the other. room: how many more there may be."""

    def __init__(self, room: int = BUDGET):
        self.room = room
        self.parts: list[np.ndarray] = []
        self.length = 0

    def add(self, tensor: np.ndarray) -> dict[str, Any]:
        """Keep a tensor; returns where it is. It is divided by its largest number, so that 16 bits hold its range."""
        finite = tensor[np.isfinite(tensor)]
        scale = float(np.abs(finite).max(initial=0)) or 1.0
        self.parts.append((tensor / scale).astype(np.float32).reshape(-1))
        kept = Kept(self.length, scale)
        self.length += tensor.size
        self.room -= tensor.size
        return kept._asdict()

    def packed(self) -> str:
        """All of them, as `packing` writes them."""
        return packing.pack(np.concatenate(self.parts), DTYPE)


def record(subject: Any, text: str) -> dict[str, Any]:
    """Compute a pass over a text with the model of a `job.Subject`; returns what the page reads, see above."""
    model, tokenizer = subject.model, subject.tokenizer
    ids = tokenizer.encode(text)
    targets = [*ids[1:], IGNORED]
    done = named_pass(model, ids, targets)
    numbers = Numbers()
    values = _values(done, numbers)
    streams = lens(model, done, targets)
    top = most_probable(done.logits, targets)
    everything = [*ids, *(one[0] for rows in (top, *streams.values()) for row in rows for one in row)]
    return {
        "name": subject.name,
        "title": subject.title,
        "config": model.config.to_dict(),
        "tokens": [{"id": i, "text": tokenizer.decode([i])} for i in ids],
        "targets": targets,
        "loss": done.loss,
        "dtype": DTYPE,
        "numbers": numbers.packed(),
        "values": values,
        "parameters": _parameters(model),
        "lens": [{"name": name, "top": rows} for name, rows in streams.items()],
        "top": top,
        "labels": _labels(tokenizer, everything),
    }


def _values(done: NamedPass, numbers: Numbers) -> list[dict[str, Any]]:
    """An entry for each value; those that the page shows most come into the numbers first, as long as there is room."""
    kept = {}
    for name in _by_importance(done.values):
        both = done.values[name]
        if 2 * both.value.size <= numbers.room:
            kept[name] = {"value": numbers.add(both.value), "gradient": numbers.add(both.gradient)}
    nothing = {"value": None, "gradient": None}
    entries = []
    for name, both in done.values.items():
        entry = {"name": name, "kind": "activation", "shape": list(both.value.shape)}
        entry |= kept.get(name, nothing)
        entry |= {"norm": _norms(both.value, name), "gradient_norm": _norms(both.gradient, name)}
        entries.append(entry)
    return entries


def _by_importance(values: dict[str, Value]) -> list[str]:
    """The names, those of one sort together: first the attention of all blocks, then the stream of all, ..."""
    found = []
    for wanted in WANTED:
        for name in values:
            number_of_block = name.split(".", 2)
            sort = number_of_block[2] if name.startswith("h.") else name
            if sort == wanted:
                found.append(name)
    return found


def _norms(tensor: np.ndarray, name: str) -> list[float]:
    """The length of the vector of each position; of scores and probabilities (NH,T,T) that of all heads together."""
    finite = np.where(np.isfinite(tensor), tensor, 0).astype(np.float64)
    axes = (0, 2) if finite.ndim == 3 else (1,)
    squares = (finite * finite).sum(axis=axes)
    return [float(f"{norm:.6g}") for norm in np.sqrt(squares)]


def _parameters(model: LanguageModel) -> list[dict[str, Any]]:
    found = []
    for name, parameter in model.named_parameters():
        norm = float(np.linalg.norm(parameter.data))
        gradient_norm = float(np.linalg.norm(parameter.grad))
        shape = list(parameter.data.shape)
        found.append({"name": name, "shape": shape, "norm": norm, "gradient_norm": gradient_norm})
    return found


def lens(model: LanguageModel, done: NamedPass, targets: list[int]) -> dict[str, Rows]:
    """What the head would say of the stream after each block: by its name, the top tokens of each position."""
    found = {}
    for name in stream_names(model):
        h = done.values[name].value
        if hasattr(model, "ln_f"):
            norm = model.ln_f
            h, _ = ops.layernorm_forward(h, norm.weight.value, norm.bias.value, eps=norm.eps)
        logits, _ = ops.linear_forward(h, model.head.value.T)
        found[name] = most_probable(logits, targets)
    return found


def most_probable(logits: np.ndarray, targets: list[int]) -> Rows:
    """logits (T,V) -> for each position the most probable tokens, first the best, and its target: (id, probability)"""
    p, _ = ops.softmax_forward(logits)
    rows = []
    for row, target in zip(p, targets, strict=True):
        shown = np.argsort(-row, kind="stable")[:TOP].tolist()
        if target != IGNORED and target not in shown:
            shown.append(target)
        rows.append([(i, float(f"{row[i]:.6g}")) for i in shown])
    return rows


def _labels(tokenizer: Tokenizer, ids: list[int]) -> dict[str, str]:
    """The text of each of these tokens."""
    return {str(i): tokenizer.decode([i]) for i in sorted(set(ids))}

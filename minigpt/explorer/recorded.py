"""A recorded pass, for a model whose weights no page can hold: computed here, and what the page shows of it.

    {"name", "title": {"en", "ko"}, "config",
     "both_sides": is it an encoder, which tells the word at a place and not the next one?
     "after_gpt2": is it a decoder whose positions turn, such as LLaMA?
     "pre_norm", "stream", "walk": see `walk.names_of_stream`,
     "tells_words": has it a head for words? a body alone has no targets (-100), and null stands for its loss, for its
     gradients, and for what the lens reads
     "labels": {id: how its token is written, for every one that is named here},
     "ids": [id], "targets": [id or -100], "loss",
     "dtype": "float16", "numbers": packed numbers of all tensors,
     "values": [{"name", "kind": "activation", "shape",
                 "value": {"offset", "scale"}, "gradient": {"offset", "scale"},   both null where there was no room
                 "norms": null, or of what is drawn {"value": [one for each position], "gradient": [the same]}}],
     "lens": [{"name": of the stream, "top": for each position [[id, probability], ...]}]}

"top" begins with the most probable token; at its end stands the target, where it is not among the others. A number of
a tensor is that of `numbers`, times the tensor's scale. Scores of the future are -Infinity there too.
"""

from typing import Any

import numpy as np

from minigpt import ops
from minigpt.errors import InputError
from minigpt.explorer import packing
from minigpt.explorer.labels import label
from minigpt.explorer.named_pass import NamedPass, Value, named_pass, named_states, stream_names
from minigpt.explorer.subject import Subject
from minigpt.explorer.walk import names_of_stream
from minigpt.models.family.decoder import Decoder
from minigpt.models.language_model import LanguageModel
from minigpt.ops import IGNORED
from minigpt.tokenizer import Tokenizer

DTYPE = "float16"
BUDGET = 2_500_000  # numbers of tensors that are kept whole: about 5 MB of a page
TOP = 10  # most probable tokens
SIZES = ("n_layer", "n_head", "n_embd", "vocab_size")  # which the page reads, whatever a config.json calls them
# What the page shows most comes first; a tensor for which there is no room is left out.
WANTED = ("attn.p", "attn.heads", "x", "ln_2", "attn.s", "x_attn", "attn", "mlp", "x_mlp", "ln_1", "attn.qkv")
WANTED += ("ln_f", "tokens", "positions", "segments", "mlp.f", "mlp.up", "mlp.a", "logits")
DRAWN = ("x", "x_attn", "x_mlp", "ln_1", "ln_2", "ln_f", "attn", "mlp", "logits")  # by the norm of each position

Rows = list[list[tuple[int, float]]]  # for each position: token ids and their probabilities


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
        kept = {"offset": self.length, "scale": scale}
        self.length += tensor.size
        self.room -= tensor.size
        return kept

    def packed(self) -> str:
        """All of them, as `packing` writes them."""
        return packing.pack(np.concatenate(self.parts), DTYPE)


def record(subject: Subject, text: str) -> dict[str, Any]:
    """Compute a pass over a text with a model; returns what the page reads, see above.

    Raises InputError where the numbers of the pass are too large for the model's kind of numbers.
    """
    model, tokenizer = subject.model, subject.tokenizer
    ids = subject.ids_of(text)
    targets = _targets(model, tokenizer, ids)
    with np.errstate(over="ignore", invalid="ignore"):  # what comes of it is looked for below
        done = named_pass(model, ids, targets) if model.tells_words else named_states(model, ids)
    _check_finite(done, subject.name)
    numbers = Numbers()
    values = _values(done, numbers)
    streams = lens(model, done, targets) if model.tells_words else dict.fromkeys(stream_names(model))
    shown = {i for rows in streams.values() if rows for row in rows for i, _ in row}
    return {
        "name": subject.name,
        "title": subject.title,
        "config": {key: getattr(model.config, key) for key in SIZES} | model.config.to_dict(),
        "both_sides": not model.learns_the_next_token,
        "after_gpt2": isinstance(model, Decoder),
        "tells_words": model.tells_words,
        **names_of_stream(model),
        "labels": {i: label(tokenizer, i) for i in sorted(shown | set(ids))},
        "ids": ids,
        "targets": targets,
        "loss": done.loss,
        "dtype": DTYPE,
        "numbers": numbers.packed(),
        "values": values,
        "lens": [{"name": name, "top": rows} for name, rows in streams.items()],
    }


def kinds_of(passes: list[dict[str, Any]]) -> list[str]:
    """What the words of a page with these recordings are chosen by, see `page.words_of`."""
    kinds = ["recorded"]
    if any(one["both_sides"] for one in passes):
        kinds.insert(0, "encoder")
    if any(one["after_gpt2"] for one in passes):
        kinds.insert(0, "decoder")
    if not all(one["tells_words"] for one in passes):
        kinds.insert(0, "body")
    return kinds


def _targets(model: LanguageModel, tokenizer: Tokenizer, ids: list[int]) -> list[int]:
    """What each place has to predict: the token that follows it; of an encoder, the token at it.

    Of an encoder that is given covered places these alone: what they covered nobody knows, so that the targets are the
    model's own first choices. A body without a head for words has none.
    """
    if not model.tells_words:
        return [IGNORED] * len(ids)
    if model.learns_the_next_token:
        return [*ids[1:], IGNORED]
    places = [i for i, token in enumerate(ids) if token == tokenizer.role("mask")]
    if places:
        targets = [IGNORED] * len(ids)
        for place, scores in zip(places, model.scores_at(np.array(ids), places), strict=True):
            targets[place] = int(scores.argmax())
        return targets
    special, _ = tokenizer.wrap([])
    return [IGNORED if token in special else token for token in ids]


def _check_finite(done: NamedPass, name: str) -> None:
    """Raises InputError where a number is infinite or none; scores of the future are -infinity, and may be."""
    forward = [(of, both.value) for of, both in done.values.items()]
    backward = [(f"the gradient of {of}", both.gradient) for of, both in reversed(done.values.items())]
    backward = backward if done.loss is not None else []
    for what, numbers in (*forward, *backward):
        hidden = np.isneginf(numbers) if what.endswith(".attn.s") else False
        if not (np.isfinite(numbers) | hidden).all():
            why = f"{what} holds numbers too large for {numbers.dtype}"
            raise InputError(f"explore {name}: this pass overflows: {why}: look at the weights of the model")


def _values(done: NamedPass, numbers: Numbers) -> list[dict[str, Any]]:
    """An entry for each value; those that the page shows most come into the numbers first, as long as there is room."""
    kept = {}
    for name in _by_importance(done.values):
        both = done.values[name]
        parts = {part: tensor for part, tensor in both._asdict().items() if tensor is not None}
        if sum(tensor.size for tensor in parts.values()) <= numbers.room:
            kept[name] = {part: numbers.add(tensor) for part, tensor in parts.items()}
    nothing = {"value": None, "gradient": None}
    entries = []
    for name, both in done.values.items():
        entry: dict[str, Any] = {"name": name, "kind": "activation", "shape": list(both.value.shape)}
        entry |= nothing | kept.get(name, {})
        is_drawn = _sort_of(name) in DRAWN
        entry["norms"] = {part: _norms(getattr(both, part)) for part in both._fields} if is_drawn else None
        entries.append(entry)
    return entries


def _by_importance(values: dict[str, Value]) -> list[str]:
    """The names, those of one sort together: first the attention of all blocks, then the stream of all, ..."""
    found = []
    for wanted in WANTED:
        for name in values:
            if _sort_of(name) == wanted:
                found.append(name)
    return found


def _sort_of(name: str) -> str:
    """A name without its block: h.3.attn.p is of the sort attn.p."""
    return name.split(".", 2)[2] if name.startswith("h.") else name


def _norms(tensor: np.ndarray | None) -> list[float] | None:
    """(T,C) -> the length of the vector of each position."""
    if tensor is None:
        return None
    norms = np.linalg.norm(tensor.astype(np.float64), axis=1)
    return [float(f"{norm:.6g}") for norm in norms]


def lens(model: LanguageModel, done: NamedPass, targets: list[int]) -> dict[str, Rows]:
    """What the head would say of the stream after each block: by its name, the top tokens of each position."""
    found = {}
    for name in stream_names(model):
        h = done.values[name].value
        if hasattr(model, "ln_f"):
            h, _ = model.ln_f.forward(h)
        logits = model.scores_of(h[None])[0]
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

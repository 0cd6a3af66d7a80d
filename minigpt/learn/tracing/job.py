"""The answer to `minigpt trace`: which model, which text, and what is shown."""

import json
import math
import textwrap
import unicodedata
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from minigpt import models, ops, tokenizer
from minigpt.errors import InputError, check_ranges, shown
from minigpt.files.disk import write_json
from minigpt.jobs.evaluate import check_json_file
from minigpt.jobs.option_fields import argument, option
from minigpt.jobs.pretrain.memory import check_machine
from minigpt.jobs.pretrain.settings import MODEL, RATES, SIZE, PretrainOptions, new_config
from minigpt.learn.tracing import tensors
from minigpt.learn.tracing.recorder import IMPLEMENTATIONS, trace
from minigpt.learn.tracing.rows import Trace
from minigpt.learn.tracing.sums import WIDTH
from minigpt.learn.tracing.table import table
from minigpt.models.language_model import LanguageModel
from minigpt.tokenizer import Tokenizer

SENTENCE = "The cat saw a bird in the garden."
RUNS = 3  # of the same step: of each time the shortest is shown
NEW = ("model", "size", "layers", "heads", "embd", "context")  # options of a new model


@dataclass(kw_only=True)
class TraceOptions:
    """What `minigpt trace` can be told."""

    folder: str | None = argument("a model directory; or a new model:", default=None, metavar="MODEL")
    model: str | None = option(None, f"of a new model (default: {MODEL})", choices=models.names())
    size: str | None = option(None, f"of a new model: {models.size_names()} (default: {SIZE})", metavar="NAME")
    layers: int | None = option(None, "number of layers (default: that of --size)", metavar="N")
    heads: int | None = option(None, "heads of attention in a layer (default: that of --size)", metavar="N")
    embd: int | None = option(None, "width of the residual stream (default: that of --size)", metavar="C")
    context: int | None = option(None, "tokens that the model sees at once (default: that of --size)", metavar="T")
    text: str = option(SENTENCE, "each token but the first is predicted; of an encoder some are covered",
                       metavar="TEXT")  # fmt: skip
    batch: int = option(1, "rows, each with this text", metavar="B")
    dropout: float | None = option(None, "rate of dropout (default: none, as in evaluation)", metavar="P")
    seed: int = option(0, "of new weights and of dropout", metavar="S")
    implementation: str = option(
        "reference", "reference shows what is inside of composites, fast does not", choices=IMPLEMENTATIONS
    )
    tensor: str | None = option(
        None, "show one tensor: a parameter, or 12, 12.out, 12.dx by a number (default: the table)", metavar="NAME"
    )
    json_file: str | None = option(None, "write all rows here too", metavar="FILE", flag="--json")

    def check(self) -> None:
        """Raises InputError for a value outside its range, and for options that do not belong together."""
        check_ranges(self, 1, "layers", "heads", "embd", "context", "batch")
        check_ranges(self, 0, "seed")
        if self.dropout is not None and not 0 <= self.dropout < 1:
            raise InputError(f"--dropout {self.dropout}: give 0 or more and less than 1")
        given = [f"--{name}" for name in NEW if getattr(self, name) is not None]
        if self.folder is not None and given:
            raise InputError(f"trace {self.folder}: the folder says what its model is: leave {', '.join(given)} out")
        if not self.text:
            raise InputError("--text is empty: give a sentence")


def run(options: TraceOptions, say: Callable[[str], object] = print) -> Trace:
    """Trace one training step and show it; returns the trace.

    Raises InputError for options that cannot be used, for a model that cannot be opened, for a text without two tokens,
    or with more than the model sees at once, for a tensor that there is not, and for a JSON file that is there already.
    """
    options.check()
    if options.json_file is not None:
        check_json_file(Path(options.json_file))
    model, text = _saved(options) if options.folder is not None else _new(options)
    which = None if options.tensor is None else tensors.wanted(options.tensor, model)
    inputs = _inputs(options, model, text)
    traced = trace(model, inputs, options.implementation, keep=which and which.number, runs=RUNS)
    if which is None:
        lines = table(traced)
    else:
        lines = "\n".join(tensors.show(traced, which, inputs, options.implementation))
    about = "\n".join(_about(options, model, text, inputs))
    say(f"{about}\n\n{lines}")
    if options.json_file is not None:
        about = {"model": options.folder or options.model or MODEL, "text": options.text}
        _write_json(options.json_file, about | {"implementation": options.implementation} | traced.to_dict())
    return traced


# --- the model -------------------------------------------------------------------------------------------------------


def _saved(options: TraceOptions) -> tuple[LanguageModel, Tokenizer]:
    """The model in a folder, with its tokenizer."""
    changes = {}
    if options.dropout is not None:
        config = models.card_in(options.folder).model.Config
        changes = {name: options.dropout for name in RATES if hasattr(config, name)}
    return models.open_both(options.folder, **changes)


def _new(options: TraceOptions) -> tuple[LanguageModel, Tokenizer]:
    """A model with new weights, whose vocabulary are the characters of the sentence here and of the text."""
    values = {name: getattr(options, name) for name in NEW}
    wanted = PretrainOptions(**values | {"model": options.model or MODEL, "dropout": options.dropout})
    wanted.batch = options.batch
    card = models.card(wanted.model)
    text = tokenizer.CharTokenizer.train([SENTENCE, options.text])
    if card.special_tokens:
        text = text.with_special(card.special_tokens)
    special = card.token_settings(text) if card.token_settings else {}
    config = new_config(wanted, vocab_size=text.vocab_size, **special)
    check_machine(wanted, card.model, config)
    return card.model(config, seed=options.seed), text


def _inputs(options: TraceOptions, model: LanguageModel, text: Tokenizer) -> dict[str, Any]:
    """What the loss is given: rows of the same text, and what each token has to predict; of a body alone, the rows."""
    inputs: dict[str, Any] = _read(options, model, text) if _reads(model, text) else _followed(options, model, text)
    inputs = {name: np.tile(row, (options.batch, 1)) for name, row in inputs.items()}
    if model.tells_words:
        inputs |= model.trial_inputs(inputs["ids"])
    if options.dropout is not None:
        inputs["key"] = ops.Key.of(options.seed, 0)
    return inputs


def _reads(model: LanguageModel, text: Tokenizer) -> bool:
    """Does the model read a whole text? What it predicts, if anything, are words that a token there covers."""
    covers = text.role("mask") is not None and not model.learns_the_next_token and not model.reads_a_source
    return covers or not model.tells_words


def _followed(options: TraceOptions, model: LanguageModel, text: Tokenizer) -> dict[str, list[int]]:
    """The text without its last token, and the token after each."""
    tokens = _tokens(options, text)
    room = model.config.n_positions
    if len(tokens) - 1 > room:
        raise _too_long(options, f"{len(tokens)} tokens, and the model sees {room} and predicts one more")
    return {"ids": tokens[:-1], "targets": tokens[1:]}


def _read(options: TraceOptions, model: LanguageModel, text: Tokenizer) -> dict[str, Any]:
    """The text between its special tokens; for a head that tells words, with some covered, and which these are.

    Of seven tokens one is covered: about BERT's 15 % (BERT section 3.1).
    """
    tokens: list[Any] = _tokens(options, text)
    targets = [ops.IGNORED] * len(tokens)
    if model.tells_words:
        for place in range(min(3, len(tokens) - 1), len(tokens), 7):
            targets[place] = tokens[place]
            tokens[place] = text.role("mask")
    ids, segments = text.wrap(tokens)
    room = model.config.n_positions
    if len(ids) > room:
        raise _too_long(options, f"{len(ids)} tokens with the special ones, and the model sees {room}")
    inputs = {"ids": ids} | model.inputs_of_segments(np.array(segments))
    if not model.tells_words:
        return inputs
    of_all = [ops.IGNORED] * len(ids)
    before = text.wrap([-1])[0].index(-1)  # how many special tokens stand in front
    of_all[before : before + len(tokens)] = targets
    return inputs | {"targets": of_all}


def _tokens(options: TraceOptions, text: Tokenizer) -> list[int]:
    """The tokens of the text. Raises InputError for fewer than two."""
    tokens = text.encode(options.text)
    if len(tokens) < 2:
        given = f"--text {shown(options.text)} has {len(tokens)} token"
        raise InputError(f"{given}: give two or more, so that one is predicted from another")
    return tokens


def _too_long(options: TraceOptions, what: str) -> InputError:
    more = "" if options.folder else ", or a larger --context"
    return InputError(f"--text has {what}: give a shorter text{more}")


# --- what is shown ---------------------------------------------------------------------------------------------------


def _about(options: TraceOptions, model: LanguageModel, text: Tokenizer, inputs: dict[str, Any]) -> list[str]:
    """The model, the text and how it is read, in lines."""
    new = "" if options.folder is not None else "; new weights"
    lines = textwrap.wrap(f"{type(model).__name__}: {model.sizes}{new}", WIDTH)
    lines.append(f"text: {in_columns(options.text, WIDTH - 8)}")
    predicted, guessing = _predicted(model, inputs)
    b, t = inputs["ids"].shape
    lines.append(f"{b} x {t} tokens, {predicted}of {model.config.vocab_size:,} in the vocabulary")
    unknown = text.unknown_in(options.text)
    if unknown:
        names = in_columns("".join(unknown), WIDTH // 2)
        lines.append(f"the vocabulary has none of {names}: the model reads the unknown token in their place")
    return [*lines, guessing]


def _predicted(model: LanguageModel, inputs: dict[str, Any]) -> tuple[str, str]:
    """Which tokens are predicted, and a line about what guessing them costs, or why that cannot be said."""
    if not model.tells_words:
        return "", f"this {type(model).__name__} has no head for words: no loss, no gradients, the forward pass alone"
    guessing = f"{math.log(model.config.vocab_size):.6f}"
    n_targets = int((inputs["targets"] != ops.IGNORED).sum())
    if n_targets < inputs["ids"].size:
        covered = f"{n_targets} of them covered and predicted, "
        return covered, f"guessing among all tokens costs {guessing} for each of them"
    if model.learns_the_next_token:
        line = f"guessing among all tokens has the loss {guessing}"
    else:
        line = "its own objective is another: here it is given the next tokens, for a trial of its loss"
    return "each followed by one to predict, ", line


def in_columns(text: str, columns: int) -> str:
    """A text as Python writes it, cut to so many columns of a terminal; a Korean character takes two."""
    found, used = "", 0
    for character in repr(text):
        used += 2 if unicodedata.east_asian_width(character) in "WF" else 1
        if used > columns - 3:
            return f"{found}..."
        found += character
    return found


def _write_json(path: str, value: dict[str, Any]) -> None:
    """JSON has no infinity: null stands in its place."""
    write_json(path, json.loads(json.dumps(value), parse_constant=lambda name: None), indent=None)

"""Writing text with a trained model."""

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass

import numpy as np
from tqdm import tqdm

from minigpt import models
from minigpt.device.gpu import choose_device
from minigpt.errors import InputError
from minigpt.files.published import tell
from minigpt.jobs.option_fields import OnDevice, argument, option
from minigpt.models import costs, sampling
from minigpt.tokenizer import Tokenizer

SHOWN = 8  # unknown characters of a prompt


@dataclass(kw_only=True)
class SampleOptions(OnDevice):
    """What `minigpt sample` can be told."""

    folder: str = argument("a model directory", metavar="MODEL")
    prompt: str | None = option(
        None, "what the text begins with (default: nothing); of an encoder-decoder the source", metavar="TEXT"
    )
    tokens: int = option(200, "how many to write", metavar="N")
    samples: int = option(1, "how many texts, in one batch", metavar="N")
    temperature: float = option(0.8, "0 is always the likeliest")
    top_k: int | None = option(None, "draw among the K likeliest tokens only", metavar="K")
    top_p: float | None = option(None, "draw among the likeliest that hold probability P", metavar="P")
    seed: int = option(0, "the same seed gives the same text", metavar="S")

    def check(self) -> None:
        """Raises InputError for a value outside its range."""
        sampling.check_options(self.temperature, self.top_k, self.top_p)
        if self.tokens < 1 or self.samples < 1 or self.seed < 0:
            given = f"--tokens {self.tokens} --samples {self.samples} --seed {self.seed}"
            raise InputError(f"{given}: give 1, 1 and 0 or more")


def _print(piece: str) -> None:
    print(piece, end="", flush=True)


def sample(options: SampleOptions, write: Callable[[str], object] = _print) -> list[str]:
    """Continue a prompt with the model in a folder; returns the texts.

    One text is written piece by piece as it comes; several are drawn together and written when all are done. Number i
    is the same however many there are. Each ends after `options.tokens`, or where the model ends it, if its vocabulary
    has a token for that. Without a prompt a text begins after the end of another, or at a line break. Of a model that
    reads a source the prompt is the source, and the text what it writes beside it. Raises InputError for options
    outside their range, for a model that cannot write, and for a prompt without tokens or with more of them than the
    model can see.
    """
    options.check()
    model, text = models.open_both(options.folder)
    if not model.can_generate and not model.reads_a_source:
        model.new_past()  # which says why it cannot
    model.to(choose_device(options.device))
    if model.reads_a_source:
        start, stop = [], model.config.eos_token_id
        prompt = _source(text, options, model.config.n_positions)
        n_tokens = min(options.tokens, model.config.n_positions)
    else:
        start, stop = _start(text, options.prompt), text.end_of_text_id
        prompt = start if options.prompt is None else text.before_text + start
        n_tokens = options.tokens
        _check_length(prompt, model.config.n_positions)
        context = model.config.n_positions
        if len(prompt) + n_tokens - 1 > context:
            about = f"the model sees {context} tokens at once: after them the window slides"
            tell(f"{about}, and the beginning is forgotten")
    costs.fit_threads(model, options.samples)
    writer, begin = model.continuing(np.tile(prompt, (options.samples, 1)))
    steps = writer.stream(
        begin,
        n_tokens,
        temperature=options.temperature,
        top_k=options.top_k,
        top_p=options.top_p,
        seed=options.seed,
        stop=stop,
    )
    if options.samples == 1:
        row = _write_one(text, start, steps, stop, write)
        return [text.decode(row)]
    progress = tqdm(steps, total=n_tokens, unit="token", leave=False, disable=None)
    rows = _collect(start, progress, stop, options.samples)
    texts = [text.decode(row) for row in rows]
    write("\n\n".join(texts) + "\n")
    return texts


def _write_one(
    text: Tokenizer, start: list[int], steps: Iterable[np.ndarray], stop: int | None, write: Callable[[str], object]
) -> list[int]:
    """Write a text while it is drawn; returns its ids, without the end of a text, `stop`."""
    terminal = text.streaming()
    row = [token for token in start if token != stop]
    pieces = [terminal.feed(token) for token in row]
    write("".join(pieces))
    for step in steps:
        token = int(step[0])
        if token != stop:
            row.append(token)
            write(terminal.feed(token))
    write(terminal.end() + "\n")
    return row


def _collect(start: list[int], steps: Iterable[np.ndarray], stop: int | None, samples: int) -> list[list[int]]:
    """The ids of several texts that are drawn together, without the end of a text, `stop`."""
    begin = [token for token in start if token != stop]
    rows = [list(begin) for _ in range(samples)]
    for step in steps:
        for row, token in zip(rows, step.tolist(), strict=True):
            if token != stop:  # a finished row repeats its end
                row.append(token)
    return rows


def _warn_of_unknown(text: Tokenizer, prompt: str) -> None:
    """Tell the user which characters of a prompt the model does not see."""
    unknown = text.unknown_in(prompt)
    if unknown:
        shown = ", ".join(map(repr, unknown[:SHOWN]))
        more = f" and {len(unknown) - SHOWN} more" if len(unknown) > SHOWN else ""
        tell(f"the vocabulary has no {shown}{more}: the model reads the unknown token in their place")


def _start(text: Tokenizer, prompt: str | None) -> list[int]:
    """The ids that a text begins with: a prompt's, or the end of the text before it, or of the line before it."""
    if prompt is None:
        if text.start_id is None:
            raise InputError("this vocabulary has no line end for a text to begin after: give a --prompt")
        return [text.start_id]
    start = text.encode(prompt)
    _warn_of_unknown(text, prompt)
    if not start:
        raise InputError(f"the prompt {prompt!r} holds no token: give some text, or no prompt at all")
    return start


def _source(text: Tokenizer, options: SampleOptions, context: int) -> list[int]:
    """The ids of a prompt that is a source: it may name the special tokens of its model, such as `_mask_`."""
    if options.prompt is None:
        raise InputError("this model writes beside a source: give it with --prompt")
    special = [name for name in models.card_in(options.folder).special_tokens if name in text.ids]
    plain = re.sub("|".join(map(re.escape, special)), " ", options.prompt) if special else options.prompt
    _warn_of_unknown(text, plain)
    source = text.encode_named(options.prompt, special)
    if not source:
        raise InputError(f"the prompt {options.prompt!r} holds no token: give some text")
    _check_length(source, context)
    return source


def _check_length(prompt: list[int], context: int) -> None:
    if len(prompt) > context:
        raise InputError(f"the prompt has {len(prompt)} tokens and the model sees {context}: give only its last part")

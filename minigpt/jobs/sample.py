"""Writing text with a trained model."""

import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
from tqdm import tqdm

from minigpt import models
from minigpt.device.gpu import choose_device
from minigpt.errors import InputError
from minigpt.models import sampling
from minigpt.tokenizer import Tokenizer


def sample(
    folder: str | Path, prompt: str | None = None, *, n_tokens: int = 200, samples: int = 1,
    temperature: float = 0.8, top_k: int | None = None, top_p: float | None = None, seed: int = 0,
    device: str | None = None, write: Callable[[str], object] = lambda text: sys.stdout.write(text)
) -> list[str]:
    """Continue a prompt with the model in a folder; returns the texts.

    One text is written piece by piece as it comes; several are drawn together and written when all are done. Number i
    is the same however many there are. Each ends after n_tokens, or where the model ends it, if its vocabulary has a
    token for that. Without a prompt a text begins after the end of another, or at a line break. Raises InputError for
    options outside their range, and for a prompt without tokens or with more of them than the model can see.
    """
    sampling.check_options(temperature, top_k, top_p)
    if n_tokens < 1 or samples < 1 or seed < 0:
        raise InputError(f"--tokens {n_tokens} --samples {samples} --seed {seed}: give 1, 1 and 0 or more")
    model, text = models.open_both(folder)
    model.to(choose_device(device))
    end, context = text.end_of_text_id, model.config.n_positions
    start = _start(text, prompt, context)
    if len(start) + n_tokens - 1 > context:
        says = f"the model sees {context} tokens at once: after them the window slides, and the beginning is forgotten"
        print(says, file=sys.stderr)
    options = {"temperature": temperature, "top_k": top_k, "top_p": top_p, "seed": seed, "stop": end}
    steps = model.stream(np.tile(start, (samples, 1)), n_tokens, **options)
    alone, terminal = samples == 1, text.streaming()
    rows = [[i for i in start if i != end] for _ in range(samples)]
    if alone:
        write("".join(map(terminal.feed, rows[0])))
    for step in tqdm(steps, total=n_tokens, unit="token", leave=False, disable=True if alone else None):
        for row, token in zip(rows, step.tolist(), strict=True):
            if token != end:  # a finished row says its end again and again
                row.append(token)
                if alone:
                    write(terminal.feed(token))
    texts = [text.decode(row) for row in rows]
    write((terminal.end() if alone else "\n\n".join(texts)) + "\n")
    return texts


def _start(text: Tokenizer, prompt: str | None, context: int) -> list[int]:
    """The ids that a text begins with: a prompt's, or the end of the text before it, or of the line before it."""
    start = [text.start_id] if prompt is None else text.encode(prompt)
    if start == [None]:
        raise InputError("this vocabulary has no line end for a text to begin after: give a --prompt")
    if not start:
        raise InputError(f"the prompt {prompt!r} holds no token: give some text, or no prompt at all")
    if len(start) > context:
        raise InputError(f"the prompt has {len(start)} tokens and the model sees {context}: give only its last part")
    return start

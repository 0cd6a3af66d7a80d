"""Writing text with a trained model."""

import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np

from minigpt import models, sampling
from minigpt.backend import choose_device
from minigpt.errors import InputError


def sample(
    folder: str | Path,
    prompt: str = "",
    *,
    n_tokens: int = 200,
    samples: int = 1,
    temperature: float = 0.8,
    top_k: int | None = None,
    top_p: float | None = None,
    seed: int = 0,
    device: str | None = None,
    write: Callable[[str], object] = sys.stdout.write,
) -> list[str]:
    """Continue a prompt with the model in a folder, writing each piece as it comes; returns the texts.

    Sample number i is drawn with seed + i. An empty prompt starts at a line break. Raises InputError for options
    outside their range and for a prompt that the tokenizer cannot encode.
    """
    sampling.check_options(temperature, top_k, top_p)
    if n_tokens < 1 or samples < 1:
        raise InputError(f"--tokens {n_tokens} --samples {samples}: give 1 or more of each")
    model, text = models.open_both(folder)
    model.to(choose_device(device))
    start = text.encode(prompt) or [text.newline_id]
    if start == [None]:
        raise InputError(f"the prompt {prompt!r} holds no token, and this vocabulary has no line end: give some text")
    texts = []
    for i in range(samples):
        options = {"temperature": temperature, "top_k": top_k, "top_p": top_p, "seed": seed + i}
        ids, shown = list(start), ""
        for token in model.stream(np.array([start]), n_tokens, **options):
            ids.append(int(token[0]))
            known = text.decode(ids)
            if known.startswith(shown):  # a last token may still change the end of the text before it
                write(known[len(shown) :])
                shown = known
        write("\n" if i == samples - 1 else "\n\n")
        texts.append(text.decode(ids))
    return texts

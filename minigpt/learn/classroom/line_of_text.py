"""The reward for a right operation: a small GPT-2 trains with it for some seconds, and writes a line of text."""

import functools
import types

import numpy as np

from minigpt import ops
from minigpt.learn.verse import IDS, VOCABULARY, Training
from minigpt.models.gpt2 import GPT2, GPT2Config
from minigpt.models.language_model import LanguageModel
from minigpt.models.lstm import LSTM, LSTMConfig

CONTEXT, WIDTH = 12, 32
TRAINING = Training(steps=200, batch=6, context=CONTEXT, rate=5e-3, warmup=20)


def line_of_text(module: types.ModuleType) -> str:
    """What a model writes that has learned a verse with the pairs of this module; "" where it does not call them.

    Errors of the module pass through.
    """
    counted = types.SimpleNamespace()
    calls = [0]
    for name, function in vars(module).items():
        if name.endswith(("_forward", "_backward")):
            setattr(counted, name, _counting(function, calls))
    model = _model(len(VOCABULARY), with_cells=hasattr(module, "lstm_forward"))
    with ops.using(counted):
        for _ in TRAINING.losses(model):
            pass
        written = _written(model, list(IDS[:2]), len(IDS) - 2) if calls[0] else []
    return " ".join(VOCABULARY[token] for token in written)


def _counting(function, calls):
    """The function, which counts its calls; its signature and module stay."""

    @functools.wraps(function)
    def counted(*args, **constants):
        calls[0] += 1
        return function(*args, **constants)

    return counted


def _model(vocab_size: int, with_cells: bool) -> LanguageModel:
    sizes = {"vocab_size": vocab_size, "n_positions": CONTEXT, "n_embd": WIDTH}
    if with_cells:
        return LSTM(LSTMConfig(**sizes), seed=0, dtype=np.float64)
    return GPT2(GPT2Config(**sizes, n_layer=1, n_head=2), seed=0, dtype=np.float64)


def _written(model: LanguageModel, tokens: list[int], n: int) -> list[int]:
    """The likeliest continuation of these tokens."""
    for _ in range(n):
        logits, _ = model.forward(np.array([tokens[-CONTEXT:]]), grad=False)
        tokens.append(int(logits[0, -1].argmax()))
    return tokens

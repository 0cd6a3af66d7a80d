"""The reward for a right operation: a small GPT-2 trains with it for some seconds, and writes a line of text."""

import functools
import types

import numpy as np

from minigpt import ops
from minigpt.models.gpt2 import GPT2, GPT2Config
from minigpt.models.language_model import LanguageModel
from minigpt.models.lstm import LSTM, LSTMConfig
from minigpt.nn.optim import AdamW

VERSE = "the rain came down , the sun came out , and the small model learned what the words are about ."
STEPS, BATCH, CONTEXT, WIDTH, RATE = 200, 6, 12, 32, 5e-3


def line_of_text(module: types.ModuleType) -> str:
    """What a model writes that has learned a verse with the pairs of this module; "" where it does not call them.

    Errors of the module pass through.
    """
    counted = types.SimpleNamespace()
    calls = [0]
    for name, function in vars(module).items():
        if name.endswith(("_forward", "_backward")):
            setattr(counted, name, _counting(function, calls))
    words = VERSE.split()
    vocabulary = sorted(set(words))
    ids = np.array([vocabulary.index(word) for word in words])
    model = _model(len(vocabulary), with_cells=hasattr(module, "lstm_forward"))
    with ops.using(counted):
        _train(model, ids)
        written = _written(model, list(ids[:2]), len(words) - 2) if calls[0] else []
    return " ".join(vocabulary[token] for token in written)


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


def _train(model: LanguageModel, ids: np.ndarray) -> None:
    optimizer = AdamW(model.named_parameters())
    rng = np.random.default_rng(0)
    endless = np.tile(ids, 3)
    for step in range(STEPS):
        starts = rng.integers(0, len(ids), BATCH)
        windows = np.stack([endless[start : start + CONTEXT + 1] for start in starts])
        model.zero_grad()
        _, cache = model.loss(windows[:, :-1], windows[:, 1:])
        model.loss_backward(cache)
        warmup = min(1, (step + 1) / 20)
        optimizer.step(RATE * warmup * (1 - step / STEPS))


def _written(model: LanguageModel, tokens: list[int], n: int) -> list[int]:
    """The likeliest continuation of these tokens."""
    for _ in range(n):
        logits, _ = model.forward(np.array([tokens[-CONTEXT:]]), grad=False)
        tokens.append(int(logits[0, -1].argmax()))
    return tokens

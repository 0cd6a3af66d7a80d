"""The small world of the lessons, and a tiny model that grows with them: each lesson opens with a line that it writes.

    show("03")      the letter table of lesson 02: its loss on new stories, and what it writes
    show("04")      what the reader of lessons 00 to 03 can build, after 300 updates: one head of attention
    show("08")      a block

Two things come from later lessons: Adam, the rule that moves the weights (09), and how letters are drawn (12).
"""

import textwrap
from collections.abc import Callable, Iterator

import numpy as np

from minigpt import ops
from minigpt.data import stories
from minigpt.models.gpt1 import GPT1, GPT1Config
from minigpt.nn import Cache, Module, Parameter
from minigpt.nn.optim import GPT1Adam
from minigpt.nn.schedules import warmup_cosine

TEXT = "\n".join(stories.documents(500, variety=1))  # two children, eleven plots
LETTERS = sorted(set(TEXT))
NUMBER = {letter: i for i, letter in enumerate(LETTERS)}
V, T, B = len(LETTERS), 32, 16  # letters there are, letters that a model sees, windows in a batch
BLOCK = ("attn", "ln_1", "mlp", "ln_2")
SO_FAR = {  # what the reader of the lessons before this one can build
    "03": ("the letter table", None),
    "04": ("one head of attention", {"parts": ("attn",), "heads": 1, "layers": 1, "plus": False}),
    "05": ("four heads", {"parts": ("attn",), "layers": 1, "plus": False}),
    "06": ("two layers", {"parts": ("attn", "mlp"), "plus": False}),
    "07": ("two layers with LayerNorms", {"plus": False}),
    "08": ("one block", {"layers": 1}),
    "09": ("two blocks, by gradient descent", {"rule": "gradient descent"}),
    "10": ("two blocks", {}),
}


def ids_of(text: str) -> np.ndarray:
    """The number of each letter."""
    return np.array([NUMBER[letter] for letter in text])


def windows(ids: np.ndarray, starts: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """ids (N,), starts (B,) -> inputs (B,T), and targets (B,T): for each letter the one that comes next"""
    cut = ids[starts[:, None] + np.arange(T + 1)]
    return cut[:, :-1], cut[:, 1:]


IDS = ids_of(TEXT)
NEW = ids_of("\n".join(stories.documents(20, split="valid", variety=1)))  # stories that no model here reads
HELD_OUT = windows(NEW, np.arange(0, len(NEW) - T, T))


def batch(step: int) -> tuple[np.ndarray, np.ndarray]:
    """Inputs and targets of an update, from places drawn at random. (Lesson 11.)"""
    rng = np.random.default_rng([0, step])
    return windows(IDS, rng.integers(len(IDS) - T, size=B))


class Table:
    """How often each letter follows each letter; p[a, b] is the probability of b after a."""

    def __init__(self):
        counts = np.full((V, V), 0.01)  # a pair that was never seen is not impossible
        np.add.at(counts, (IDS[:-1], IDS[1:]), 1)
        self.p = counts / counts.sum(axis=1, keepdims=True)

    def next_p(self, ids: np.ndarray) -> np.ndarray:
        """ids (T,) -> probabilities (V,) of the next letter: only the last letter counts"""
        return self.p[ids[-1]]

    def loss(self) -> float:
        """On the stories that are held out, in nats a letter."""
        inputs, targets = HELD_OUT
        return float(-np.log(self.p[inputs, targets]).mean())


class Layer(Module):
    """Parts of a block of GPT-1, one after the other. plus: attention and MLP add to what they read. (Lesson 07.)"""

    def __init__(self, block: Module, parts: tuple[str, ...], plus: bool):
        for name in parts:
            setattr(self, name, getattr(block, name))
        self.parts = parts
        self.added = ("attn", "mlp") if plus else ()

    def forward(self, x, past=None, key=None, grad=True, mask=None):
        """x (B,T,C) -> out (B,T,C)"""
        cache = Cache(self, grad)
        for name in self.parts:
            out = cache.keep(name, getattr(self, name).forward(x))
            x = x + out if name in self.added else out
        return x, cache

    def backward(self, dout, cache):
        """dout (B,T,C) -> dx (B,T,C)"""
        cache = self.own(cache)
        for name in reversed(self.parts):
            dx = getattr(self, name).backward(dout, cache.pop(name))
            dout = dout + dx if name in self.added else dx
        return dout


class Model:
    """A GPT-1, 64 wide, of which only some parts are there, after some updates. rule: "Adam" or "gradient descent"."""

    def __init__(self, parts=BLOCK, plus=True, layers=2, heads=4, updates=300, rule="Adam"):
        no_dropout = {"embd_pdrop": 0.0, "attn_pdrop": 0.0, "resid_pdrop": 0.0}
        sizes = {"vocab_size": V, "n_positions": T, "n_embd": 64, "n_layer": layers, "n_head": heads}
        self.gpt = GPT1(GPT1Config(initializer_range=0.06, **sizes, **no_dropout))
        self.gpt.h = [Layer(block, parts, plus) for block in self.gpt.h]
        weights = {name: np.asarray(parameter.data) for name, parameter in self.gpt.named_parameters()}
        for _ in train(weights, self.gradients, updates, rule):
            pass

    def gradients(self, inputs: np.ndarray, targets: np.ndarray) -> dict[str, np.ndarray]:
        """The gradient of each array, by name."""
        self.gpt.zero_grad()
        _, cache = self.gpt.loss(inputs, targets)
        self.gpt.loss_backward(cache)
        return {name: np.asarray(parameter.grad) for name, parameter in self.gpt.named_parameters()}

    def next_p(self, ids: np.ndarray) -> np.ndarray:
        """ids (T,) -> probabilities (V,) of the next letter"""
        logits, _ = self.gpt.forward(ids[None, -T:], grad=False)
        p, _ = ops.softmax_forward(logits[0, -1])
        return p

    def loss(self) -> float:
        """On the stories that are held out, in nats a letter."""
        return float(self.gpt.loss(*HELD_OUT, grad=False)[0])


def train(weights: dict, gradients: Callable[..., dict], updates: int, rule: str = "Adam") -> Iterator[int]:
    """Move the weights, in place. Yields how many updates have been made, before the first one and after each.

    weights: arrays by name; gradients(inputs, targets): theirs. Lesson 09 explains Adam and its rate, lesson 11 the
    loop.
    """
    parameters = {name: Parameter(array) for name, array in weights.items()}
    adam = GPT1Adam(parameters.items())
    for step in range(updates):
        yield step
        for name, gradient in gradients(*batch(step)).items():
            parameters[name].grad = gradient
            if rule == "gradient descent":
                weights[name] -= 0.3 * gradient  # rates of 0.2 to 0.5 end alike
        if rule == "Adam":
            adam.step(6e-3 * warmup_cosine(step / updates, 0.1), max_norm=1.0)
    yield updates


def write(next_p: Callable[[np.ndarray], np.ndarray], n: int = 90) -> str:
    """A text of n letters, each drawn with its probability. next_p: as in `Table`."""
    rng = np.random.default_rng(0)
    ids = [NUMBER["\n"]]  # where a story begins
    for _ in range(n):
        p = next_p(np.array(ids)).astype(np.float64)
        ids.append(rng.choice(V, p=p / p.sum()))
    return textwrap.fill("".join(LETTERS[i] for i in ids[1:]), 95, initial_indent="  ", subsequent_indent="  ")


def show(lesson: str) -> dict[str, float]:
    """Train what a lesson begins with, and let it write. Returns losses on new stories: its own, and of two that count.

    The two are the letter table, and one that knows how often each letter occurs, and nothing else.
    """
    name, settings = SO_FAR[lesson]
    frequencies = np.bincount(IDS) / len(IDS)
    table = Table()
    writer = table if settings is None else Model(**settings)
    by_frequency = float(-np.log(frequencies[HELD_OUT[1]]).mean())
    losses = {"letter frequencies": by_frequency, "the letter table": table.loss()} | {name: writer.loss()}
    said = "loss on new stories: " + ", ".join(f"{model} {loss:.2f}" for model, loss in losses.items())
    print(textwrap.fill(said, 95))
    print(f"the last of them writes:\n{write(writer.next_p)}")
    return losses

"""How hard a piece is to find, by measurement: does a careless check pass it, and does it train nevertheless?"""

import functools
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

from minigpt import gradcheck
from minigpt.gradcheck.judge import Trial, guarded, judge
from minigpt.gradcheck.results import Result
from minigpt.learn.museum.model import ModelOfFunctions
from minigpt.learn.museum.pieces import Piece, as_module
from minigpt.learn.museum.training import Curve, curve
from minigpt.models.gpt1 import GPT1Config
from minigpt.ops import reference, shapes
from minigpt.ops.cases import KEY, case

NEAR = 1.1  # times the right one's final loss
CONFIG = GPT1Config(vocab_size=9, n_positions=5, n_embd=4, n_layer=1, n_head=2)
IDS, TARGETS = np.array([[1, 2, 1], [2, 4, 5]]), np.array([[2, 1, 3], [4, 5, 0]])
CONSTANTS = {"dropout": {"rate": 0.1, "key": None}, "rope": case("rope").constants}
AT_FIRST = {"layernorm": {"g": 1.0, "b": 0.0}, "rmsnorm": {"g": 1.0}}  # what parameters are before a training


class Measured(NamedTuple):
    """careless: a careless check passes it. partly: such a check finds some gradients right. trains: it learns."""

    careless: bool
    partly: bool
    trains: bool

    @property
    def level(self) -> int:
        """1: wrong everywhere; 2: wrong in some tensors; 3: a careless check passes it, or it trains nevertheless;
        4: both.
        """
        if self.careless or self.trains:
            return 4 if self.careless and self.trains else 3
        return 2 if self.partly else 1


def trials(op: str, file) -> list[Trial]:
    """A careful check of the passes of a file: each trial, and what was found in it."""
    if hasattr(file, "model_forward"):
        return list(trials_of_model(ModelOfFunctions(file, CONFIG)))
    found = judge(op, getattr(file, f"{op}_forward"), getattr(file, f"{op}_backward"))
    return [(what, results) for what, results in found if results]


def trials_of_model(model: Any) -> Iterator[Trial]:
    """A careful check of a whole model, without dropout and then with it."""
    for what, key in (("plain", None), ("dropout", KEY)):
        yield what, guarded(gradcheck.check_model, model, IDS, TARGETS, key=key)


def careless(piece: Piece) -> list[Result]:
    """A check as it is often done: at the initial point, with a cotangent of ones."""
    file, op = piece.module(), piece.op
    if piece.is_model:
        return guarded(gradcheck.check_model, ModelOfFunctions(file, CONFIG), IDS, TARGETS, spread=0)
    right = getattr(reference, f"{op}_forward")
    args = shapes.examples(right)
    args |= {name: np.full_like(args[name], number) for name, number in AT_FIRST.get(op, {}).items()}
    constants = CONSTANTS.get(op, {})
    forward, backward = getattr(file, f"{op}_forward"), getattr(file, f"{op}_backward")
    ones = np.ones(np.shape(right(**args, **constants)[0]))
    return guarded(gradcheck.check, forward, backward, args.values(), constants, args, dout=ones)


def measured(piece: Piece) -> Measured:
    """All that its level depends on."""
    found = careless(piece)
    words = [result.word for result in found]
    mine, right = curve(piece.op, piece.module()), _curve_of_right(piece.op, piece.right)
    passes = all(word == "happy" for word in words)
    return Measured(passes, "happy" in words, mine.last <= NEAR * right.last)


@functools.cache
def _curve_of_right(op: str, text: str) -> Curve:
    """Of the right file of an operation, with which all of its pieces are compared: it is trained once."""
    return curve(op, as_module(text, op))

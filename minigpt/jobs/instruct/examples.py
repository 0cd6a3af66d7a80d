"""Instructions as tokens: what the model reads, and which tokens it learns to write.

A chat template makes one text of a conversation. Where an answer begins in it, the template tells itself: there it ends
when an answer is to come.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from minigpt import ops
from minigpt.data.instructions import ANSWERS, Instruction
from minigpt.errors import InputError
from minigpt.jobs.chat_template import NotRendered, Template
from minigpt.jobs.conversation import encoded
from minigpt.tokenizer import Tokenizer

PLAIN = Path(__file__).with_name("alpaca.jinja")  # for a model without a template of its own


class Example(NamedTuple):
    """ids (T,) and targets (T,), int64: the token that follows where it is of an answer, and else -100."""

    ids: np.ndarray
    targets: np.ndarray


class Reader(NamedTuple):
    """What turns conversations into tokens. stops: the tokens that end an answer. longest: what the model can see."""

    template: Template
    text: Tokenizer
    stops: Sequence[int]
    longest: int

    def examples(self, instructions: Sequence[Instruction], path: str | Path) -> list[Example]:
        """An example of each. Raises InputError, which names its place in the file, for what does not fit."""
        places = []
        several = []
        for instruction in instructions:
            for i, message in enumerate(instruction.messages):
                if message["role"] == ANSWERS:
                    several += [(instruction.messages[:i], True), (instruction.messages[: i + 1], False)]
                    places += [instruction.place] * 2
        try:
            texts = iter(self.template.render_all(several))
        except NotRendered as error:
            raise InputError(f"{path}, {places[error.number]}: {error}") from error
        found = []
        for instruction in instructions:
            answers = [one for one in instruction.messages if one["role"] == ANSWERS]
            turns = [(encoded(self.text, next(texts)), encoded(self.text, next(texts))) for _ in answers]
            found.append(self._example(turns, f"{path}, {instruction.place}"))
        return found

    def _example(self, turns: list[tuple[list[int], list[int]]], where: str) -> Example:
        """turns: of each answer the ids of all before it, and the ids up to its end"""
        _, whole = turns[-1]
        counts = np.zeros(len(whole), bool)
        for before, up_to_its_end in turns:
            begin = common(before, whole)
            end = common(up_to_its_end, whole)
            counts[begin : self._end(whole, begin, end)] = True
        length = len(whole) - 1  # the last token predicts nothing
        if length > self.longest:
            given = f"it makes {len(whole):,} tokens with the text around it"
            raise InputError(f"{where}: {given}, and the model sees {self.longest:,}: shorten it, or leave it out")
        ids = np.array(whole)
        targets = np.where(counts, ids, ops.IGNORED)[1:]
        if not (targets != ops.IGNORED).any():
            raise InputError(f"{where}: the chat template in {self.template.path} leaves nothing of its answer")
        return Example(ids[:-1], targets)

    def _end(self, ids: list[int], begin: int, end: int) -> int:
        """Where an answer ends for who writes it: behind its last stop, without what the template puts there."""
        for i in reversed(range(begin, end)):
            if ids[i] in self.stops:
                return i + 1
        return end


def common(a: Sequence[int], b: Sequence[int]) -> int:
    """With how many equal ids the two begin: a text that goes on may end its last token elsewhere."""
    n = 0
    for mine, other in zip(a, b, strict=False):
        if mine != other:
            break
        n += 1
    return n


def batch(examples: Sequence[Example]) -> tuple[np.ndarray, np.ndarray]:
    """ids and targets (N,T) of these examples, filled up at the right, where nothing is predicted."""
    length = max(len(example.ids) for example in examples)
    ids = np.zeros((len(examples), length), np.int64)
    targets = np.full_like(ids, ops.IGNORED)
    for row, example in enumerate(examples):
        ids[row, : len(example.ids)] = example.ids
        targets[row, : len(example.ids)] = example.targets
    return ids, targets


def n_targets(examples: Sequence[Example]) -> int:
    """How many tokens of answers they have."""
    return sum(int((example.targets != ops.IGNORED).sum()) for example in examples)


def n_tokens(examples: Sequence[Example]) -> int:
    """How many tokens are read."""
    return sum(len(example.ids) for example in examples)


def template_for(own: Template | None, text: Tokenizer, model: str) -> Template:
    """A model's own template; or the plain one, as Alpaca had it, in which its token for the end ends an answer.

    Raises InputError for a tokenizer without such a token.
    """
    if own is not None:
        return own
    end = text.end_of_text_id
    if end is None:
        what = "has no chat template, and its tokenizer no token that ends a text: an answer would have no end"
        raise InputError(f"{model} {what}: take a model that has one, such as gpt2")
    source = PLAIN.read_text(encoding="utf-8")
    return Template("{%- set eos_token = " + repr(text.token(end)) + " -%}\n" + source, PLAIN, {})

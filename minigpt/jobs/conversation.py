"""A conversation with a model: what was said, what the model has read of it, and the next answer.

The chat template puts the whole conversation into one text at every turn. What of it the model has read before, it does
not read again: its keys and values are kept as far as the new text begins like the old one.
"""

from bisect import bisect_left
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from minigpt.errors import InputError, is_whole, shown
from minigpt.files import checkpoint
from minigpt.files.disk import read_json
from minigpt.jobs.chat_template import Message, Template
from minigpt.jobs.convert import GENERATION
from minigpt.models.language_model import LanguageModel
from minigpt.nn import Past
from minigpt.tokenizer import GPT2Tokenizer, Tokenizer
from minigpt.tokenizer.pipeline import PieceTokenizer

PIECE = 256  # tokens of a prompt that are read at once: between two pieces one can stop it
SHARE = 4  # one part in so many of the context is kept free for an answer, unless answers are shorter
END = "eos_token_id"


class Conversation:
    """What was said so far, and a model that goes on with it.

    system: what the model is told before, or None. stops: tokens that end an answer. max_tokens: the longest answer.
    seed: turn n draws with seed + n. sampling: more options of `generation.stream`. tell(line): is told what is
    forgotten. history: the messages, those of the user and of the model in turn.
    """

    def __init__(
        self,
        model: LanguageModel,
        text: Tokenizer,
        template: Template,
        stops: Sequence[int] = (),
        *,
        system: str | None = None,
        max_tokens: int = 512,
        seed: int = 0,
        tell: Callable[[str], object] = print,
        **sampling: Any,
    ):
        self.model = model
        self.text = text
        self.template = template
        self.stops = tuple(stops)
        self.before: list[Message] = [] if system is None else [{"role": "system", "content": system}]
        self.max_tokens = max_tokens
        self.seed = seed
        self.tell = tell
        self.sampling = sampling
        self.ended_by = ""
        self._past: list[Past] = []
        self._ids: list[int] = []  # what the past holds, and perhaps a little more
        self.reset()

    def reset(self) -> None:
        """Forget what was said. The model keeps what it has read: the next conversation may begin like this one."""
        self.history: list[Message] = []
        self.n_turns = 0

    def answer(self, message: str, stopped: Callable[[], int] = lambda: 0) -> Iterator[str]:
        """Yield the answer piece by piece, in whole characters; afterwards it stands in the history.

        stopped(): is it to end now? ended_by then says how it ended: "" (by itself), "stopped", "max-tokens" or
        "context". Where nothing was answered, the history is as it was before. Raises InputError for a message that the
        template does not take, and for one that the context has no room for.
        """
        question = {"role": "user", "content": message}
        ids = self._prompt(question)
        room = self.model.config.n_positions - len(ids)
        n_tokens = min(self.max_tokens, room)
        self._read(ids, n_tokens, stopped)
        said = []
        for piece in self._pieces(ids, n_tokens, stopped):
            said.append(piece)
            yield piece
        if self.ended_by == "max-tokens" and n_tokens == room:
            self.ended_by = "context"
        self.n_turns += 1
        if said:
            self.history += [question, {"role": "assistant", "content": "".join(said)}]

    def _prompt(self, question: Message) -> list[int]:
        """The ids of the conversation with a question, which leave room for an answer: old turns are forgotten."""
        context = self.model.config.n_positions
        longest = context - min(self.max_tokens, context // SHARE)

        def without(n_turns: int) -> list[int]:
            messages = [*self.before, *self.history[2 * n_turns :], question]
            return encoded(self.text, self.template.render(messages))

        n_turns = 0
        ids = without(0)
        if len(ids) > longest and self.history:
            turns = range(1, len(self.history) // 2)
            n_turns = 1 + bisect_left(turns, True, key=lambda n: len(without(n)) <= longest)
            ids = without(n_turns)
        if len(ids) >= context:
            given = f"this message makes {len(ids):,} tokens with the text around it"
            raise InputError(f"{given}, and the model sees {context:,}: give a shorter one")
        if n_turns:
            self.tell(_about_forgotten(self.history[: 2 * n_turns : 2], context))
            self.history = self.history[2 * n_turns :]
        return ids

    def _read(self, ids: list[int], n_tokens: int, stopped: Callable[[], int]) -> None:
        """Let the model read the prompt, all but its last piece, and make room for an answer of so many tokens."""
        n_known = self._known(ids)
        for one in self._past:
            one.length = n_known
        self._make_room(len(ids) + n_tokens)
        self._ids = list(ids)
        for start in range(n_known, len(ids) - PIECE, PIECE):
            if stopped():
                return
            piece = np.array([ids[start : start + PIECE]])
            self.model.hidden(piece, self._past, grad=False)

    def _known(self, ids: list[int]) -> int:
        """With how many of these ids the past begins. One at least is left to read."""
        if not all(isinstance(one, Past) for one in self._past):  # a memory that cannot go back
            self._past = []
        held = min([one.length for one in self._past], default=0)
        n_known = 0
        for mine, new in zip(self._ids[:held], ids[:-1], strict=False):
            if mine != new:
                break
            n_known += 1
        return n_known

    def _make_room(self, n_positions: int) -> None:
        """A past of so many positions, with what it holds; a larger one is made twice as large at least."""
        if self._past and self._past[0].capacity >= n_positions:
            return
        capacity = min(2 * n_positions, self.model.config.n_positions)
        larger = self.model.new_past(capacity)
        for old, new in zip(self._past, larger, strict=False):
            stored = old.read()
            if stored is not None:
                new.extend(*stored)
        self._past = larger

    def _pieces(self, ids: list[int], n_tokens: int, stopped: Callable[[], int]) -> Iterator[str]:
        """The answer to a prompt, token by token; sets ended_by."""
        written = self.text.streaming()
        silent = {self.text.ids[token] for token in self.text.special}
        seed = self.seed + self.n_turns
        options = self.sampling | {"seed": seed, "stop": self.stops, "past": self._past}
        self.ended_by = "stopped"
        if not stopped():
            for step in self.model.stream([ids], n_tokens, **options):
                token = int(step[0])
                self._ids.append(token)
                if token in self.stops:
                    self.ended_by = ""
                    break
                piece = "" if token in silent else written.feed(token)
                if piece:
                    yield piece
                if stopped():
                    break
            else:
                self.ended_by = "max-tokens"
        rest = written.end()
        if rest:
            yield rest


def encoded(text: Tokenizer, rendered: str) -> list[int]:
    """The ids of what a chat template wrote. The special tokens in it stand for themselves."""
    if isinstance(text, (PieceTokenizer, GPT2Tokenizer)):
        return text.encode(rendered, allowed_special="all")
    return text.encode_named(rendered, text.special)


def stops(folder: Path, text: Tokenizer, template: Template) -> list[int]:
    """The tokens that end an answer: what the files of the model and of the tokenizer say; each has one, or several.

    Raises InputError for what is no token of this vocabulary.
    """
    found = {text.end_of_text_id, text.ids.get(template.tokens.get("eos_token"))} - {None}
    for name in (checkpoint.CONFIG, GENERATION):
        path = folder / name
        given = read_json(path).get(END) if path.is_file() else None
        several = given if isinstance(given, list) else [given]
        for one in several:
            if one is None:
                continue
            if not is_whole(one) or not 0 <= one < text.vocab_size:
                expected = f"expected a token id from 0 to {text.vocab_size - 1}, or a list of them"
                raise InputError(f"{path}: {END} is {shown(given)}: {expected}")
            found.add(one)
    return sorted(found)


def _about_forgotten(questions: list[Message], context: int) -> str:
    """What is told of turns that do not fit any more."""
    first, last = shown(questions[0]["content"]), shown(questions[-1]["content"])
    which = f"the oldest turn is forgotten: {first}"
    if len(questions) > 1:
        which = f"the oldest {len(questions)} turns are forgotten: from {first} to {last}"
    return f"the conversation is longer than the {context:,} tokens that the model sees: {which}"

"""A model of the page, and whether it can read the text: opened, measured, and with its tokenizer."""

import os
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from minigpt import models
from minigpt.errors import InputError, shown
from minigpt.files import hub
from minigpt.jobs.fill import covered_ids, uncovered
from minigpt.learn.lessons import find_lessons
from minigpt.models import costs, gpt1, gpt2
from minigpt.models.card import Card
from minigpt.models.family.decoder import DecoderBlock
from minigpt.models.family.heads import BiasHead, WordHead
from minigpt.models.language_model import LanguageModel
from minigpt.tokenizer import Tokenizer

KINDS = {"gpt1": "GPT-1", "gpt2": "GPT-2"}  # the models that a page can compute, and what they are called
LARGEST = 10_000_000  # bytes of a page that holds the weights of its model
PER_WEIGHT = 2 * 4 / 3  # bytes: 16 bits in base64; deflating saves little


class Subject(NamedTuple):
    """A model of the page: its name, its title in each language, itself, and its tokenizer."""

    name: str
    title: dict[str, str]
    model: LanguageModel
    tokenizer: Tokenizer

    def ids_of(self, text: str) -> list[int]:
        """The ids of a text as the model reads it: an encoder, between its special tokens, and with its mask."""
        if self.model.learns_the_next_token:
            return self.tokenizer.before_text + self.tokenizer.encode(text)
        return covered_ids(self.tokenizer, text)

    def unknown_in(self, text: str) -> list[str]:
        """The characters of a text that the vocabulary lacks; the mask of an encoder is none of them."""
        return self.tokenizer.unknown_in(text if self.model.learns_the_next_token else uncovered(self.tokenizer, text))


def shipped() -> list[Subject]:
    """The small GPT-1 and GPT-2 of `data/explorer`, in a copy of the repository or where pip has put them.

    Raises InputError where one is missing.
    """
    files = find_lessons()
    found = []
    for name, title in KINDS.items():
        weights = f"data/explorer/{name}/model.safetensors"
        if weights not in files:
            raise InputError(f"the explorer's model {weights} is missing: install minigpt again, or name a MODEL")
        model, tokenizer = models.open_both(files[weights].parent)
        found.append(Subject(name, {"en": title, "ko": title}, model, tokenizer))
    return found


def given(folder: str, record: bool) -> Subject:
    """The model in a folder, or a downloaded one by its name. record: of any size.

    Raises InputError where it has no page, cannot be opened, or is too large or unlike the released models for a page
    that computes.
    """
    card = models.card_in(folder)
    if not record:
        _check_kind(folder, card)
        check_size(folder, card.model)
        changed = card.model.config_in(hub.find(folder)).changed()  # type: ignore[attr-defined]  # GPT's have it
        if changed:
            page = "the page computes as the released models do: with --record it shows the numbers of this one text"
            raise InputError(f"explore {folder}: its config.json has {changed}: {page}")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # rows of no token are left out, as everywhere
        model, tokenizer = models.open_both(folder)
    name = _visible(os.fsencode(Path(folder).resolve().name or folder).decode("utf-8", "replace"))
    _check_parts(folder, model)
    title = f"{name} ({KINDS.get(card.name, card.model.__name__)})"
    return Subject(name, {"en": title, "ko": title}, model, tokenizer)


def _check_kind(folder: str, card: Card) -> None:
    """Raises InputError for a model that no page can compute."""
    if card.name not in KINDS:
        what = f"it holds a model of type {card.model.__name__}, and a page computes GPT-1 and GPT-2"
        raise InputError(f"explore {folder}: {what}: with --record it shows the numbers of other models, too")


def _check_parts(folder: str, model: LanguageModel) -> None:
    """Raises InputError where the parts of a model are not those that a page knows."""
    kind = type(model).__name__
    block = model.h[0]
    known_head = model.learns_the_next_token or isinstance(getattr(model, "words", None), WordHead | BiasHead)
    apart = len(set(map(id, model.h))) == len(model.h) and not model.reads_a_source
    known_block = isinstance(block, gpt1.Block | gpt2.Block | DecoderBlock)
    if not (known_block and (known_head or not model.tells_words) and apart):
        known = "GPT-1, GPT-2, LLaMA and its kin, and encoders with blocks like GPT-1's, such as BERT and RoBERTa"
        raise InputError(f"explore {folder}: a page does not know the parts of a {kind}: there are pages of {known}")


def _visible(name: str) -> str:
    """A name without characters that steer a terminal or turn the direction of a line: U+202E stands for itself."""
    return "".join(character if character.isprintable() else f"U+{ord(character):04X}" for character in name)


def check_size(folder: str, kind: type[LanguageModel]) -> None:
    """Raises InputError for a model whose page would be too large. Its weights are counted, and not read."""
    n_weights = costs.count(kind, kind.config_in(hub.find(folder)))
    size = n_weights * PER_WEIGHT
    if size > LARGEST:
        weights = f"its {n_weights:,} weights would make a page of about {megabytes(size)} MB"
        limit = f"the limit is {megabytes(LARGEST)} MB"
        advice = "with --record the page shows the numbers of this one text, computed now"
        raise InputError(f"explore {folder}: {weights}, and {limit}: {advice}")


def described(one: Subject) -> str:
    """A model in a few words."""
    n_weights = sum(parameter.data.size for parameter in one.model.parameters())
    return f"{one.title['en']} with {n_weights:,} parameters"


def megabytes(size: float) -> str:
    """bytes -> "2.5", the number of megabytes."""
    return f"{size / 1e6:.1f}".removesuffix(".0")


# --- the text --------------------------------------------------------------------------------------------------------


def check_text(text: str, one: Subject) -> None:
    """Raises InputError for a text that the model cannot read: too short, too long, or not in its vocabulary."""
    unknown = one.unknown_in(text)
    if unknown and one.tokenizer.unknown_id is None:
        names = _characters(unknown)
        raise InputError(f"--text: the vocabulary of {one.name} has none of {names}: leave them out")
    n_tokens = len(one.ids_of(text))
    if n_tokens < 2:
        given = f"--text {shown(text)} has {n_tokens} token{'' if n_tokens == 1 else 's'}"
        raise InputError(f"{given} for {one.name}: give two or more, so that one is predicted from another")
    room = one.model.config.n_positions
    if n_tokens > room:
        raise InputError(f"--text has {n_tokens} tokens, and {one.name} sees at most {room}: give a shorter text")


def warn_of_unknown(text: str, one: Subject, say: Callable[[str], object]) -> None:
    """Say which characters of the text the model reads as its unknown token, if there are any."""
    unknown = one.unknown_in(text)
    if unknown:
        names = _characters(unknown)
        say(f"the vocabulary of {one.name} has none of {names}: it reads the unknown token in their place")


def _characters(unknown: list[str]) -> str:
    """Some characters, so that each can be seen and looked up."""
    first = [f"{one!r} (U+{ord(one[0]):04X})" for one in unknown[:5]]
    more = f" and {len(unknown) - 5} more" if len(unknown) > 5 else ""
    return ", ".join(first) + more

"""The answer to `minigpt explore`: which models, which text, what a page can hold of them, and where it goes."""

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from minigpt import models
from minigpt.errors import InputError, shown
from minigpt.files import hub
from minigpt.jobs.option_fields import argument, option
from minigpt.learn.explorer import packing, page, recorded
from minigpt.learn.lessons import find_lessons
from minigpt.models import costs
from minigpt.models.language_model import LanguageModel
from minigpt.tokenizer import CharTokenizer, GPT1Tokenizer, GPT2Tokenizer, Tokenizer
from minigpt.tokenizer import text as text_rules

SENTENCE = "Once upon a time there was a girl named Anna. She lost her red ball in the park."
SHIPPED = {"gpt1": "GPT-1", "gpt2": "GPT-2"}  # in data/explorer, and what they are called
LARGEST = 10_000_000  # bytes of a page that holds the weights of its model
PER_WEIGHT = 2 * 4 / 3  # bytes: 16 bits in base64; deflating saves little
KINDS = {GPT2Tokenizer: "byte-level", CharTokenizer: "char", GPT1Tokenizer: "words"}


@dataclass(kw_only=True)
class ExploreOptions:
    """What `minigpt explore` can be told."""

    folder: str | None = argument(
        "a directory with a GPT-1 or GPT-2 (default: a small one of each)", default=None, metavar="MODEL"
    )
    text: str = option(SENTENCE, "what the page shows first", metavar="TEXT")
    out: str = option("explorer.html", "the page to write", metavar="FILE", short="-o")
    record: bool = option(False, "of a model too large for a page: compute here, and show the numbers of this text")

    def check(self) -> None:
        """Raises InputError for values that cannot be, and for a place where no page can be written."""
        if not self.text.strip():
            raise InputError("--text is empty: give a sentence")
        try:
            self.text.encode("utf-8")
        except UnicodeEncodeError as error:
            raise InputError(f"--text {shown(self.text)} is no UTF-8: type it again, or paste it") from error
        if not self.out:
            raise InputError("--out is empty: give the name of a file, such as explorer.html")
        if self.record and self.folder is None:
            raise InputError("--record: name a model; the two small ones compute in the page itself")
        page.check_place(Path(self.out))


class Subject(NamedTuple):
    """A model of the page: its name, its title in each language, itself, and its tokenizer."""

    name: str
    title: dict[str, str]
    model: LanguageModel
    tokenizer: Tokenizer


def explore(options: ExploreOptions, say: Callable[[str], object] = print) -> Path:
    """Write the page, say what it holds, and return its path.

    Raises InputError for options that cannot be used, for a model that cannot be opened, is too large for a page or is
    neither GPT-1 nor GPT-2, and for a text that it cannot read. A page is written whole or not at all.
    """
    options.check()
    subjects = _shipped() if options.folder is None else [_given(options.folder, options.record)]
    for one in subjects:
        check_text(options.text, one)
        _warn_of_unknown(options.text, one, say)
    data = content(subjects, options.text, options.record)
    path = Path(options.out)
    text = page.assemble(data)
    page.write(path, text)
    say(f"{path}: {_megabytes(len(text.encode()))} MB, {' and '.join(map(_described, subjects))}")
    say("now: open it in a browser; it needs no network")
    return path


# --- the models ------------------------------------------------------------------------------------------------------


def _shipped() -> list[Subject]:
    """The small GPT-1 and GPT-2 of `data/explorer`, in a copy of the repository or where pip has put them."""
    files = find_lessons()
    found = []
    for name, title in SHIPPED.items():
        weights = f"data/explorer/{name}/model.safetensors"
        if weights not in files:
            raise InputError(f"the explorer's model {weights} is missing: install minigpt again, or name a MODEL")
        model, tokenizer = models.open_both(files[weights].parent)
        found.append(Subject(name, {"en": title, "ko": title}, model, tokenizer))
    return found


def _given(folder: str, record: bool) -> Subject:
    """The model in a folder, or a downloaded one by its name."""
    card = models.card_in(folder)
    if card.name not in SHIPPED:
        kind = card.model.__name__
        raise InputError(f"explore {folder}: it holds a model of type {kind}: only GPT-1 and GPT-2 have a page")
    if not record:
        check_size(folder, card.model)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # rows of no token are left out, as everywhere
        model, tokenizer = models.open_both(folder)
    name = Path(folder).resolve().name or folder
    title = f"{name} ({SHIPPED[card.name]})"
    return Subject(name, {"en": title, "ko": title}, model, tokenizer)


def check_size(folder: str, kind: type[LanguageModel]) -> None:
    """Raises InputError for a model whose page would be too large, before its weights are read."""
    n_weights = costs.count(kind, kind.config_in(hub.find(folder)))
    size = n_weights * PER_WEIGHT
    if size > LARGEST:
        weights = f"its {n_weights:,} weights would make a page of about {_megabytes(size)} MB"
        limit = f"the limit is {_megabytes(LARGEST)} MB"
        advice = "with --record the page shows the numbers of this one text, computed now"
        raise InputError(f"explore {folder}: {weights}, and {limit}: {advice}")


def _described(one: Subject) -> str:
    """A model in a few words."""
    n_weights = sum(parameter.data.size for parameter in one.model.parameters())
    return f"{one.title['en']} with {n_weights:,} parameters"


def _megabytes(size: float) -> str:
    return f"{size / 1e6:.1f}".removesuffix(".0")


# --- the text --------------------------------------------------------------------------------------------------------


def check_text(text: str, one: Subject) -> None:
    """Raises InputError for a text that the model cannot read: too short, too long, or not in its vocabulary."""
    unknown = one.tokenizer.unknown_in(text)
    if unknown and one.tokenizer.unknown_id is None:
        names = _characters(unknown)
        raise InputError(f"--text: the vocabulary of {one.name} has none of {names}: leave them out")
    n_tokens = len(one.tokenizer.encode(text))
    if n_tokens < 2:
        given = f"--text {shown(text)} has {n_tokens} token{'' if n_tokens == 1 else 's'}"
        raise InputError(f"{given} for {one.name}: give two or more, so that one is predicted from another")
    room = one.model.config.n_positions
    if n_tokens > room:
        raise InputError(f"--text has {n_tokens} tokens, and {one.name} sees at most {room}: give a shorter text")


def _warn_of_unknown(text: str, one: Subject, say: Callable[[str], object]) -> None:
    unknown = one.tokenizer.unknown_in(text)
    if unknown:
        names = _characters(unknown)
        say(f"the vocabulary of {one.name} has none of {names}: it reads the unknown token in their place")


def _characters(unknown: list[str]) -> str:
    """Some characters, so that each can be seen and looked up."""
    first = [f"{one!r} (U+{ord(one[0]):04X})" for one in unknown[:5]]
    more = f" and {len(unknown) - 5} more" if len(unknown) > 5 else ""
    return ", ".join(first) + more


# --- what the page holds ---------------------------------------------------------------------------------------------


def content(subjects: list[Subject], text: str, record: bool = False) -> dict[str, Any]:
    """What the script of the page reads, as values of JSON: models with their weights, or a recorded pass."""
    if record:
        passes = [recorded.record(one, text) for one in subjects]
        return {"models": [], "tokenizers": [], "text": text, "recorded": passes}
    tokenizers: list[dict[str, Any]] = []
    entries = []
    for one in subjects:
        tokenizer = tokenizer_entry(one.tokenizer)
        if tokenizer not in tokenizers:
            tokenizers.append(tokenizer)
        entries.append(model_entry(one) | {"tokenizer": tokenizers.index(tokenizer)})
    return {"models": entries, "tokenizers": tokenizers, "text": text, "recorded": None}


def model_entry(one: Subject) -> dict[str, Any]:
    """A model: its configuration, the names, shapes and places of its parameters, and their numbers, packed."""
    parameters = []
    arrays = []
    offset = 0
    for name, parameter in one.model.named_parameters():
        array = parameter.data
        parameters.append({"name": name, "shape": list(array.shape), "offset": offset})
        arrays.append(array.reshape(-1))
        offset += array.size
    dtype = packing.best_dtype(arrays)
    return {
        "name": one.name,
        "title": one.title,
        "config": one.model.config.to_dict(),
        "parameters": parameters,
        "dtype": dtype,
        "weights": packing.pack(np.concatenate(arrays), dtype),
    }


def tokenizer_entry(tokenizer: Tokenizer) -> dict[str, Any]:
    """A tokenizer: its kind, vocabulary, merges and special tokens; of GPT-1's also the rules by which words are split.

    They are the built-in ones, also where ftfy and spaCy stand in for them here: a few words may get other ids.
    """
    merges = [f"{left} {right}" for left, right in getattr(tokenizer, "merges", [])]
    entry = {"kind": KINDS[type(tokenizer)], "vocab": tokenizer.ids, "merges": merges}
    entry["special"] = {token: tokenizer.ids[token] for token in tokenizer.special}
    entry["unknown"] = tokenizer.unknown_id
    entry["prefix_space"] = getattr(tokenizer, "prefix_space", False)
    if isinstance(tokenizer, GPT1Tokenizer):
        entry["rules"] = text_rules.tables()
    return entry

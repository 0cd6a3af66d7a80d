"""What the script of the page reads of a model, of its tokenizer and of mistakes, as values of JSON."""

from typing import Any

import numpy as np

from minigpt.errors import InputError
from minigpt.learn.explorer import packing
from minigpt.learn.explorer.subject import Subject
from minigpt.learn.museum.pieces import pieces
from minigpt.tokenizer import CharTokenizer, GPT1Tokenizer, GPT2Tokenizer, Tokenizer
from minigpt.tokenizer import text as text_rules
from minigpt.tokenizer.gpt2 import spell

KINDS_OF_TOKENIZER = {GPT2Tokenizer: "byte-level", CharTokenizer: "char", GPT1Tokenizer: "words"}


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

    They are the built-in ones, also where ftfy and spaCy stand in for them here: a few words may get other ids. Raises
    InputError for a tokenizer that the page does not know.
    """
    if type(tokenizer) not in KINDS_OF_TOKENIZER:
        kinds = "GPT-1's, GPT-2's or one of characters"
        raise InputError(f"the page encodes with a vocabulary of {kinds}: show this model with --record")
    merges = [f"{left} {right}" for left, right in getattr(tokenizer, "merges", [])]
    entry = {"kind": KINDS_OF_TOKENIZER[type(tokenizer)], "vocab": tokenizer.ids, "merges": merges}
    entry["special"] = {token: tokenizer.ids[token] for token in tokenizer.special}
    entry["unknown"] = tokenizer.unknown_id
    entry["prefix_space"] = getattr(tokenizer, "prefix_space", False)
    if isinstance(tokenizer, GPT1Tokenizer):
        entry["rules"] = text_rules.tables()
    return entry


def _names_are_bytes(tokenizer: Tokenizer) -> bool:
    """Do the names of its tokens write a character for each byte, as GPT-2's do, and so `Ġ` for a space?"""
    of_a_space = tokenizer.ids.get(spell(" "))
    return of_a_space is not None and tokenizer.decode([of_a_space]) == " "


def spelling_entry(tokenizer: Tokenizer, ids: set[int]) -> dict[str, Any]:
    """A tokenizer that can only show these tokens: it has no other words, and joins nothing.

    One that the page does not know is written as one of bytes, in which each token spells its own name; one of bytes
    that a tokenizer.json describes is one.
    """
    if type(tokenizer) not in KINDS_OF_TOKENIZER:
        special = {token: tokenizer.ids[token] for token in tokenizer.special if tokenizer.ids[token] in ids}
        spelled = str if _names_are_bytes(tokenizer) else spell
        vocabulary = {spelled(tokenizer.token(i)): i for i in sorted(ids - set(special.values()))}
        entry = {"kind": "byte-level", "vocab": vocabulary | special, "merges": [], "special": special}
        return entry | {"unknown": tokenizer.unknown_id, "prefix_space": False}
    entry = tokenizer_entry(tokenizer)
    for tokens in ("vocab", "special"):
        entry[tokens] = {token: i for token, i in entry[tokens].items() if i in ids}
    entry["merges"] = []
    if "rules" in entry:
        entry["rules"] = {name: {} for name in entry["rules"]}
    return entry


def mistake_entries() -> dict[str, dict[str, Any]]:
    """Of each mistake that can be planted: its operation, what it is called, and what the page says of it."""
    return {
        one.name: {
            "op": one.op,
            "title": {"en": one.title, "ko": one.title_ko},
            "says": {"en": one.page, "ko": one.page_ko},
        }
        for one in pieces()
        if one.page
    }

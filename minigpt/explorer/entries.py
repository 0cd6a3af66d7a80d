"""What the script of the page reads of a model, of its tokenizer and of mistakes, as values of JSON."""

from typing import Any

import numpy as np

from minigpt.errors import InputError
from minigpt.explorer import packing
from minigpt.explorer.labels import label
from minigpt.explorer.subject import Subject
from minigpt.explorer.walk import names_of_stream
from minigpt.learn.museum.pieces import pieces
from minigpt.tokenizer import CharTokenizer, GPT1Tokenizer, GPT2Tokenizer, Tokenizer
from minigpt.tokenizer import text as text_rules
from minigpt.tokenizer.gpt2 import CHARACTER_OF
from minigpt.tokenizer.words import WORD

KINDS_OF_TOKENIZER = {GPT2Tokenizer: "byte-level", CharTokenizer: "char", GPT1Tokenizer: "words"}


def model_entry(one: Subject) -> dict[str, Any]:
    """A model: its configuration, its parameters by name, their numbers, packed, and the names of its stream."""
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
        **names_of_stream(one.model),
    }


def tokenizer_entry(tokenizer: Tokenizer) -> dict[str, Any]:
    """A tokenizer: its kind, vocabulary, merges, special tokens and labels, and the rules by which it splits a text.

    GPT-1's rules are the built-in ones, also where ftfy and spaCy stand in for them here: a few words may get other
    ids. Raises InputError for a tokenizer that the page does not know.
    """
    if type(tokenizer) not in KINDS_OF_TOKENIZER:
        kinds = "GPT-1's, GPT-2's or one of characters"
        raise InputError(f"the page encodes with a vocabulary of {kinds}: show this model with --record")
    kind = KINDS_OF_TOKENIZER[type(tokenizer)]
    return {
        "kind": kind,
        "vocab": tokenizer.ids,
        "merges": [f"{left} {right}" for left, right in tokenizer.merges],
        "special": {token: tokenizer.ids[token] for token in tokenizer.special},
        "unknown": tokenizer.unknown_id,
        "prefix_space": getattr(tokenizer, "prefix_space", False),
        "labels": [label(tokenizer, i) for i in range(tokenizer.vocab_size)],
        "rules": RULES[kind](),
    }


def _rules_of_bytes() -> dict[str, str]:
    """bytes: the character of each byte, in their order; word: the pattern of a word, in JavaScript's spelling.

    JavaScript's own \\s counts U+FEFF, and leaves U+0085 out: it has another name for the white space of Unicode.
    """
    pattern = WORD.pattern.replace(r"\s", r"\p{White_Space}").replace(r"\S", r"\P{White_Space}")
    return {"bytes": "".join(CHARACTER_OF[byte] for byte in range(256)), "word": pattern}


RULES = {"byte-level": _rules_of_bytes, "char": dict, "words": text_rules.tables}


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

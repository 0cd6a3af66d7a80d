"""`vocab.json` and `merges.txt` of published models other than GPT-1 and GPT-2, as a `tokenizer.json` tells the same.

All of them spell words as GPT-2 does. What differs stands in `vocab_and_merges.toml`: special tokens, what is put
around a text, the pattern of words. RoBERTa's and BART's ids are those of fairseq, which the file itself holds.
"""

import functools
import tomllib
from collections.abc import Mapping
from importlib.resources import files as resources
from pathlib import Path
from typing import Any, NamedTuple

from minigpt.errors import InputError
from minigpt.tokenizer import files, settings, steps_after
from minigpt.tokenizer.files import HUGGING_FACE_FILES
from minigpt.tokenizer.pipeline import Added, Template

TABLE = "vocab_and_merges.toml"


class Member(NamedTuple):
    """One table of the file. roles {key of tokenizer_config.json: token}; pattern: of words, none for GPT-2's."""

    classes: tuple[str, ...]
    single: str = "$A:0"
    pair: str = "$A:0 $B:1"
    roles: Mapping[str, str] = {}
    mask_lstrip: bool = False
    normalizer: str = ""
    pattern: str = ""


AS_BYTES = {"type": "ByteLevel", "add_prefix_space": True, "trim_offsets": True, "use_regex": True}
FILLER = "madeupword"  # fairseq fills its vocabularies up with such words


@functools.cache
def members() -> dict[str, Member]:
    """{class of a tokenizer: what it does}."""
    tables = tomllib.loads(resources("minigpt.tokenizer").joinpath(TABLE).read_text(encoding="utf-8"))
    found = {}
    for table in tables.values():
        member = Member(**table)
        found.update(dict.fromkeys(member.classes, member))
    return found


def is_here(folder: Path, class_name: Any) -> bool:
    """Does a folder hold both files, for a class of the table?"""
    return class_name in members() and all((folder / name).is_file() for name in HUGGING_FACE_FILES)


def with_names(folder: Path, config: Mapping[str, Any], class_name: str) -> dict[str, Any]:
    """`tokenizer_config.json` with the special tokens that the other files name, or else the table."""
    named = {key: one.token for key, one in settings.named_in(folder, config).items()}
    return {**members()[class_name].roles, **named, **config}


def described(folder: Path, config: Mapping[str, Any], class_name: str) -> dict[str, Any]:
    """The tokenizer in a folder, as a `tokenizer.json` describes it. config: what `with_names` gives.

    Raises InputError where a file is damaged, or a special token is missing.
    """
    member = members()[class_name]
    tokens, merges = files.read_pair(*(folder / name for name in HUGGING_FACE_FILES))
    ids = {token: i for i, token in enumerate(tokens)}
    named = settings.named_in(folder, config)
    special = dict.fromkeys(token.token for token in named.values())
    template = Template(*(_renamed(written, member, named) for written in (member.single, member.pair)))
    around = {name for n_texts in (1, 2) for name, _ in template.items(n_texts) if not name.startswith("$")}
    missing = sorted(around - set(ids))
    if missing:
        raise InputError(f"{folder / HUGGING_FACE_FILES[0]} lacks the special token {missing[0]!r}: add it there")
    if not member.pattern:
        fillers = [token for token in tokens if token.startswith(FILLER)]
        files.check_merges(tokens, merges, [*special, *fillers], folder / HUGGING_FACE_FILES[1])
    return {
        "added_tokens": _added(named, ids, member, config),
        "normalizer": {"type": member.normalizer} if member.normalizer else None,
        "pre_tokenizer": _splitter(member, config, folder),
        "post_processor": steps_after.settings_of(template, ids),
        "decoder": AS_BYTES,
        "model": {"type": "BPE", "vocab": ids, "merges": [list(pair) for pair in merges]},
    }


def _added(
    named: Mapping[str, Added], ids: Mapping[str, int], member: Member, config: Mapping[str, Any]
) -> list[dict[str, Any]]:
    """The special tokens that the vocabulary has, in the order of their ids."""
    added = {}
    for key, one in named.items():
        if member.mask_lstrip and key == "mask_token" and not isinstance(config.get(key), dict):
            one = one._replace(lstrip=True)
        if one.token in ids:
            flags = one._asdict()
            del flags["token"]
            added[one.token] = {"id": ids[one.token], "content": one.token} | flags
    return sorted(added.values(), key=lambda one: one["id"])


def _renamed(written: str, member: Member, named: Mapping[str, Added]) -> str:
    """A template with the names that the files of a folder give to its special tokens."""
    names = {token: named[key].token for key, token in member.roles.items()}
    items = [item.rpartition(":") for item in written.split()]
    return " ".join(f"{names.get(name, name)}:{segment}" for name, _, segment in items)


def _splitter(member: Member, config: Mapping[str, Any], folder: Path) -> dict[str, Any]:
    """The step that makes words, and spells them as bytes."""
    prefix_space = bool(settings.prefix_space(config, folder))
    bytes_of_words = AS_BYTES | {"add_prefix_space": prefix_space, "use_regex": not member.pattern}
    if not member.pattern:
        return bytes_of_words
    by_pattern = {"type": "Split", "pattern": {"Regex": member.pattern}, "behavior": "Isolated", "invert": False}
    return {"type": "Sequence", "pretokenizers": [by_pattern, bytes_of_words]}

"""Which token of a published vocabulary stands for what: the small files beside a vocabulary tell, or its names.

`tokenizer_config.json` names tokens as `mask_token`, `cls_token`, ...; older folders have `special_tokens_map.json`.
"""

from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

from minigpt.errors import InputError, shown
from minigpt.files.disk import read_json
from minigpt.tokenizer.base import ROLES
from minigpt.tokenizer.pipeline import OUR_NAMES, Added
from minigpt.tokenizer.settings import CONFIG, MORE_SPECIAL, SPECIAL_TOKENS

KEYS = {  # {role: the keys that tell it in those files, the first that is there counts}
    "mask": ("mask_token",),
    "start": ("cls_token", "bos_token"),
    "delimiter": ("sep_token", "eos_token"),
    "end": ("eos_token",),
    "pad": ("pad_token",),
    "unknown": ("unk_token",),
}
_LISTS = (MORE_SPECIAL, "extra_special_tokens")


def named_in(folder: Path, config: Mapping[str, Any]) -> dict[str, Added]:
    """{key: token} of all special tokens that the files of a folder name by their keys, such as `mask_token`.

    config: what `tokenizer_config.json` says. Raises InputError for what is no token.
    """
    found = {}
    older = folder / SPECIAL_TOKENS
    for path, values in ((folder / CONFIG, config), (older, read_json(older) if older.exists() else {})):
        for keys in KEYS.values():
            for key in keys:
                if values.get(key) is not None:
                    found.setdefault(key, token_of(values[key], f"{path}: {key}"))
    return found


def more_special(config: Mapping[str, Any], where: str) -> list[Added]:
    """The special tokens that a configuration lists without a role. Raises InputError for what is no token."""
    found = []
    for name in _LISTS:
        tokens = config.get(name) or []
        tokens = list(tokens.values()) if isinstance(tokens, dict) else tokens
        if not isinstance(tokens, list):
            raise InputError(f"{where}: {name} is {shown(tokens)}: expected a list of tokens")
        found += [token_of(token, f"{where}: {name}") for token in tokens]
    return found


def by_id(config: Mapping[str, Any], where: str) -> dict[int, Added]:
    """`added_tokens_decoder`, in which tokens stand under their ids. Raises InputError for what is no token."""
    tokens = config.get("added_tokens_decoder") or {}
    if not isinstance(tokens, dict) or not all(i.isdecimal() for i in tokens):
        raise InputError(
            f"{where}: added_tokens_decoder is {shown(tokens)}: expected an object of ids and their tokens"
        )
    return {int(i): token_of(token, f"{where}: added_tokens_decoder") for i, token in tokens.items()}


def token_of(given: Any, where: str) -> Added:
    """A special token: a text, or an object with its content and flags. Raises InputError for another value."""
    if isinstance(given, str):
        return Added(given)
    if not isinstance(given, dict) or not isinstance(given.get("content"), str):
        raise InputError(f"{where} is {shown(given)}: expected a text, or an object with its content")
    flags = {flag: given[flag] for flag in Added._fields[1:] if flag in given}
    if not all(isinstance(value, bool) for value in flags.values()):
        raise InputError(f"{where} is {shown(given)}: its flags must be true or false")
    return Added(given["content"], **flags)


def roles_of(named: Mapping[str, Added], vocabulary: Collection[str]) -> dict[str, str]:
    """{role: token}: as the files name it; where they do not, by the names that published vocabularies use."""
    roles = {}
    for role, keys in KEYS.items():
        names = [named[key].token for key in keys if key in named]
        for name in (*names, *ROLES[role]):
            if name in vocabulary and name not in OUR_NAMES:
                roles[role] = name
                break
    return roles

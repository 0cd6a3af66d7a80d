"""Reading the small files beside a vocabulary: `tokenizer_config.json`, `special_tokens_map.json`, `added_tokens.json`.

They tell which tokens are special, and add some to the vocabulary. A setting that changes ids and is not done here is
an error that names it.
"""

from pathlib import Path
from typing import Any, NamedTuple

from minigpt.errors import InputError
from minigpt.files.disk import read_json
from minigpt.tokenizer import all_in_one

CONFIG = "tokenizer_config.json"
SPECIAL_TOKENS = "special_tokens_map.json"
ADDED_TOKENS = "added_tokens.json"
MORE_SPECIAL = "additional_special_tokens"

_ROLES = ("bos_token", "eos_token", "unk_token", "sep_token", "pad_token", "cls_token", "mask_token")
_LISTS = (MORE_SPECIAL, "extra_special_tokens")  # the second is how transformers 5 calls it
_NOT_DONE = ("add_bos_token", "add_eos_token")


class Settings(NamedTuple):
    """What the files beside a vocabulary say. `prefix_space` is None where they do not say it."""

    special: list[str]
    added: dict[str, int]  # {special token: its id}
    prefix_space: bool | None


def read_config(folder: str | Path) -> dict[str, Any]:
    """The settings in `tokenizer_config.json`; none where there is no such file."""
    return _read(Path(folder) / CONFIG)


def read(folder: Path) -> Settings:
    """What the small files of a folder say. Raises InputError for a setting that is damaged, or not done here."""
    config = read_config(folder)
    path = folder / CONFIG
    for name in _NOT_DONE:
        if config.get(name):
            raise InputError(f"{path} sets {name}: it adds a token to every text, which is not done here")
    prefix_space = config.get("add_prefix_space")
    if prefix_space is not None and type(prefix_space) is not bool:
        raise InputError(f"{path}: add_prefix_space is {prefix_space!r}: expected true or false")
    special = _special_names(config, path)
    special += _special_names(_read(folder / SPECIAL_TOKENS), folder / SPECIAL_TOKENS)
    added = _added_by_id(config, path)
    special += added
    for token, i in _read(folder / ADDED_TOKENS).items():
        if token not in special:
            what = "texts are split at added tokens that are not special, which is not done here"
            raise InputError(f"{folder / ADDED_TOKENS}: no other file says that {token!r} is special: {what}")
        added.setdefault(token, i)
        if added[token] != i:
            raise InputError(f"{folder / ADDED_TOKENS}: {token!r} has the id {i!r}, and {added[token]!r} in {CONFIG}")
    return Settings(list(dict.fromkeys(special)), added, prefix_space)


def _special_names(values: dict, path: Path) -> list[str]:
    """The special tokens that a file names, by role or in a list: each a string, or an object with its content."""
    tokens = []
    for role in _ROLES:
        if values.get(role) is not None:
            tokens.append(values[role])
    for name in _LISTS:
        more = values.get(name) or []
        if isinstance(more, dict):
            more = list(more.values())
        if not isinstance(more, list):
            raise InputError(f"{path}: {name} is {more!r}: expected a list of tokens")
        tokens += more
    return [_content(token, path) for token in tokens]


def _content(token: Any, path: Path) -> str:
    content = token
    if isinstance(token, dict):
        content = token.get("content")
        if isinstance(content, str):
            all_in_one.check_added(path, content, token | {"special": True})
    if not isinstance(content, str):
        raise InputError(f"{path}: {token!r} is no special token: expected a text, or an object with its content")
    return content


def _added_by_id(config: dict, path: Path) -> dict[str, int]:
    """`added_tokens_decoder`, in which tokens stand under their ids, as {token: its id}."""
    by_id = config.get("added_tokens_decoder") or {}
    expected = "expected an object of ids, each with a token's content and whether it is special"
    if not isinstance(by_id, dict):
        raise InputError(f"{path}: added_tokens_decoder is {by_id!r}: {expected}")
    added = {}
    for i, token in by_id.items():
        if not i.isdecimal() or not isinstance(token, dict) or not isinstance(token.get("content"), str):
            raise InputError(f"{path}: added_tokens_decoder has {i!r}: {token!r}: {expected}")
        all_in_one.check_added(path, token["content"], token)
        added[token["content"]] = int(i)
    return added


def _read(path: Path) -> dict[str, Any]:
    """A JSON object; an empty one where there is no such file."""
    if not path.exists():
        return {}
    return read_json(path)

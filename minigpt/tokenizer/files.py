"""Reading and writing vocabulary files. Whatever is wrong in them is named with its file, and its line or token."""

import json
from pathlib import Path
from typing import Any

from minigpt.errors import InputError
from minigpt.files.disk import read_json, read_text, write_text
from minigpt.tokenizer.bpe import Pair

CONFIG = "tokenizer_config.json"
HUGGING_FACE_FILES = ("vocab.json", "merges.txt")
ALL_IN_ONE = "tokenizer.json"
BPE_MODEL = {"vocab": dict, "merges": list}
HEADER = "#version: 0.2"


def write_json(path: Path, value: dict[str, Any], indent: int | None = 2) -> None:
    """Write a JSON object, with characters as they are; `indent=None` puts it on one line."""
    write_text(path, json.dumps(value, ensure_ascii=False, indent=indent) + "\n")


def tokens_from_ids(ids: Any, path: Path) -> list[str]:
    """The tokens in order, from a `{token: id}` object whose ids must be 0, 1, 2, ... with none missing or twice."""
    if not isinstance(ids, dict) or not ids:
        raise InputError(f"{path} holds no vocabulary: expected an object of tokens and their ids")
    tokens: list[str | None] = [None] * len(ids)
    for token, i in ids.items():
        if type(i) is not int or not 0 <= i < len(ids):
            raise InputError(f"{path}: token {token!r} has the id {i!r}, expected a number from 0 to {len(ids) - 1}")
        if tokens[i] is not None:
            raise InputError(f"{path}: tokens {tokens[i]!r} and {token!r} have the same id {i}")
        tokens[i] = token
    return tokens


def read_merges(path: Path) -> list[Pair]:
    """The merges of a `merges.txt`: a line `left right` for each, first learnt first, after a version line if any."""
    lines = read_text(path).split("\n")
    if lines[-1] == "":
        lines.pop()
    first = 1 if lines and lines[0].startswith("#version") else 0
    return _pairs(lines[first:], path, "line", first + 1)


def _pairs(items: list, path: Path, unit: str, first: int) -> list[Pair]:
    """Merges from `"left right"` or `["left", "right"]`; what is wrong is named with its number, counted from first."""
    seen: dict[Pair, int] = {}
    for number, item in enumerate(items, start=first):
        pair = tuple(item.split(" ") if isinstance(item, str) else item if isinstance(item, list) else ())
        here = f"{path}, {unit} {number}"
        if len(pair) != 2 or not all(isinstance(symbol, str) and symbol for symbol in pair):
            raise InputError(f"{here}: {str(item)[:60]!r} is not a merge, expected two symbols and one space")
        if pair in seen:
            raise InputError(f"{here}: the merge {' '.join(pair)!r} stands on {unit} {seen[pair]} already")
        seen[pair] = number
    return list(seen)


def read_bpe(folder: Path, *choices: tuple[str, str]) -> tuple[list[str], list[Pair], list[str]]:
    """Tokens, merges and special tokens, from the first of these pairs of files that is there, or `tokenizer.json`."""
    vocabulary, merges = find(folder, *choices)
    single = folder / ALL_IN_ONE
    if single.exists() and not vocabulary.exists() and not merges.exists():
        vocabulary = merges = single
        tokens, pairs, special = _read_all_in_one(single)
    else:
        tokens, pairs, special = tokens_from_ids(read_json(vocabulary), vocabulary), read_merges(merges), []
    check_fit(tokens, pairs, vocabulary, merges)
    return tokens, pairs, special


def _read_all_in_one(path: Path) -> tuple[list[str], list[Pair], list[str]]:
    saved = read_json(path)
    model, added = saved.get("model"), saved.get("added_tokens") or []
    if not isinstance(model, dict) or not all(isinstance(model.get(key), kind) for key, kind in BPE_MODEL.items()):
        raise InputError(f"{path} holds no byte-pair encoding: expected a model with a vocab and merges")
    try:
        ids = {token["content"]: token["id"] for token in added}
        special = [token["content"] for token in added if token["special"]]
        "".join(ids)
    except (TypeError, KeyError):
        raise InputError(f"{path}: added_tokens must be a list of objects with content, id and special") from None
    return tokens_from_ids(model["vocab"] | ids, path), _pairs(model["merges"], path, "merge", 1), special


def write_bpe(folder: Path, names: tuple[str, str], tokens: list[str], merges: list[Pair], config: dict) -> None:
    """Write a vocabulary and its merges under these names, and `tokenizer_config.json`.

    The vocabulary is `{token: id}`; the merges are a version line, then a line `left right` for each.
    """
    write_json(folder / names[0], {token: i for i, token in enumerate(tokens)}, indent=None)
    write_text(folder / names[1], "".join(f"{line}\n" for line in [HEADER, *map(" ".join, merges)]))
    write_json(folder / CONFIG, config)


def read_config(folder: str | Path) -> dict[str, Any]:
    """What `tokenizer_config.json` says; nothing where there is none."""
    path = Path(folder) / CONFIG
    return read_json(path) if path.exists() else {}


def check_fit(tokens: list[str], merges: list[Pair], vocabulary: Path, merges_file: Path) -> None:
    """Every symbol that a merge takes or makes must be in the vocabulary."""
    known = set(tokens)
    for number, (left, right) in enumerate(merges, start=1):
        for symbol in (left, right, left + right):
            if symbol not in known:
                lacks = f"merge {number}, '{left} {right}', needs the token {symbol!r}, which the vocabulary lacks"
                raise InputError(f"{vocabulary} and {merges_file} do not belong together: {lacks}")


def find(folder: Path, *choices: tuple[str, ...]) -> list[Path]:
    """The files of the first choice of names of which any exists in the folder; of the first one, where none does."""
    found = [names for names in choices if any((folder / name).exists() for name in names)]
    return [folder / name for name in (found or choices)[0]]

"""Reading and writing vocabulary files. An error names the file, and the line or the token that is wrong in it."""

import json
from pathlib import Path
from typing import Any

from minigpt.errors import InputError
from minigpt.files.disk import read_json, read_text, write_text
from minigpt.tokenizer.bpe import Pair

CONFIG = "tokenizer_config.json"
HUGGING_FACE_FILES = ("vocab.json", "merges.txt")
ALL_IN_ONE = "tokenizer.json"
HEADER = "#version: 0.2"

Vocabulary = tuple[list[str], list[Pair], list[str]]  # tokens, merges, special tokens


def write_json(path: Path, value: dict[str, Any], indent: int | None = 2) -> None:
    """Write a JSON object, with characters as they are; `indent=None` puts it on one line."""
    text = json.dumps(value, ensure_ascii=False, indent=indent)
    write_text(path, text + "\n")


def tokens_from_ids(ids: Any, path: Path) -> list[str]:
    """The tokens in order, from a `{token: id}` object whose ids must be 0, 1, 2, ... with none missing or twice.

    Raises InputError, naming `path`, where they are not.
    """
    if not isinstance(ids, dict) or not ids:
        raise InputError(f"{path} holds no vocabulary: expected an object of tokens and their ids")
    tokens: list[str | None] = [None] * len(ids)
    for token, i in ids.items():
        if type(i) is not int or not 0 <= i < len(ids):
            expected = f"expected a number from 0 to {len(ids) - 1}"
            raise InputError(f"{path}: token {token!r} has the id {i!r}, {expected}")
        if tokens[i] is not None:
            raise InputError(f"{path}: tokens {tokens[i]!r} and {token!r} have the same id {i}")
        tokens[i] = token
    return tokens


def read_merges(path: Path) -> list[Pair]:
    """The merges of a `merges.txt`: a line `left right` for each, first learnt first, after a version line if any.

    Raises InputError, naming the line, for what is no merge, and for a merge that stands there twice.
    """
    lines = read_text(path).split("\n")
    if lines[-1] == "":
        lines.pop()
    first = 0
    if lines and lines[0].startswith("#version"):
        first = 1
    return _pairs(lines[first:], path, "line", first + 1)


def _pairs(items: list, path: Path, unit: str, first: int) -> list[Pair]:
    """Merges from `"left right"` or `["left", "right"]`; what is wrong is named with its number, counted from first."""
    number_of: dict[Pair, int] = {}
    for number, item in enumerate(items, start=first):
        here = f"{path}, {unit} {number}"
        symbols = item.split(" ") if isinstance(item, str) else item
        if not _is_pair(symbols):
            given = str(item)[:60]
            raise InputError(f"{here}: {given!r} is not a merge, expected two symbols and one space")
        pair = tuple(symbols)
        if pair in number_of:
            merge = " ".join(pair)
            raise InputError(f"{here}: the merge {merge!r} stands on {unit} {number_of[pair]} already")
        number_of[pair] = number
    return list(number_of)


def _is_pair(symbols: Any) -> bool:
    """Is it a list of two strings, neither of them empty?"""
    if not isinstance(symbols, list) or len(symbols) != 2:
        return False
    for symbol in symbols:
        if not isinstance(symbol, str) or symbol == "":
            return False
    return True


def read_bpe(folder: Path, *choices: tuple[str, str]) -> Vocabulary:
    """Tokens, merges and special tokens, from the first of these pairs of files that is there, or `tokenizer.json`.

    Raises InputError where a file is missing or damaged, and where the merges do not fit the tokens.
    """
    vocabulary, merges = find(folder, *choices)
    single = folder / ALL_IN_ONE
    if single.exists() and not vocabulary.exists() and not merges.exists():
        tokens, pairs, special = _read_all_in_one(single)
        check_fit(tokens, pairs, single, single)
        return tokens, pairs, special
    tokens = tokens_from_ids(read_json(vocabulary), vocabulary)
    pairs = read_merges(merges)
    check_fit(tokens, pairs, vocabulary, merges)
    return tokens, pairs, []


def _read_all_in_one(path: Path) -> Vocabulary:
    """The same from a `tokenizer.json`, as the `tokenizers` library writes it."""
    saved = read_json(path)
    model = saved.get("model")
    if not isinstance(model, dict):
        model = {}
    vocab = model.get("vocab")
    merges = model.get("merges")
    if not isinstance(vocab, dict) or not isinstance(merges, list):
        raise InputError(f"{path} holds no byte-pair encoding: expected a model with a vocab and merges")
    added_ids = {}
    special = []
    try:
        for token in saved.get("added_tokens") or []:
            content = token["content"]
            added_ids[content] = token["id"]
            if token["special"]:
                special.append(content)
        "".join(added_ids)  # a TypeError, where one of them is no text
    except (TypeError, KeyError):
        raise InputError(f"{path}: added_tokens must be a list of objects with content, id and special") from None
    tokens = tokens_from_ids(vocab | added_ids, path)
    pairs = _pairs(merges, path, "merge", 1)
    return tokens, pairs, special


def write_bpe(folder: Path, names: tuple[str, str], tokens: list[str], merges: list[Pair], config: dict) -> None:
    """Write a vocabulary and its merges under these names, and `tokenizer_config.json`.

    The vocabulary is `{token: id}`; the merges are a version line, then a line `left right` for each.
    """
    vocabulary_name, merges_name = names
    ids = {token: i for i, token in enumerate(tokens)}
    lines = [HEADER]
    for left, right in merges:
        lines.append(f"{left} {right}")
    write_json(folder / vocabulary_name, ids, indent=None)
    write_text(folder / merges_name, "\n".join(lines) + "\n")
    write_json(folder / CONFIG, config)


def read_config(folder: str | Path) -> dict[str, Any]:
    """The settings in `tokenizer_config.json`; none where there is no such file."""
    path = Path(folder) / CONFIG
    if not path.exists():
        return {}
    return read_json(path)


def check_fit(tokens: list[str], merges: list[Pair], vocabulary: Path, merges_file: Path) -> None:
    """Every symbol that a merge takes or makes must be in the vocabulary. Raises InputError, naming both files."""
    known = set(tokens)
    for number, (left, right) in enumerate(merges, start=1):
        for symbol in (left, right, left + right):
            if symbol not in known:
                lacks = f"merge {number}, '{left} {right}', needs the token {symbol!r}, which the vocabulary lacks"
                raise InputError(f"{vocabulary} and {merges_file} do not belong together: {lacks}")


def find(folder: Path, *choices: tuple[str, ...]) -> list[Path]:
    """The files of the first choice of names of which any exists in the folder; of the first one, where none does."""
    candidates = []
    for names in choices:
        paths = [folder / name for name in names]
        candidates.append(paths)
    for paths in candidates:
        if any(path.exists() for path in paths):
            return paths
    return candidates[0]

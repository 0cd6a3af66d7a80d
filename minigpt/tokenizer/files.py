"""Reading vocabulary files, one function for each. An error names the file, and the line or the token that is wrong.

- `vocab.json` and `merges.txt`: ids of tokens, and which two of them become one;
- `vocab.txt`: a token on each line;
- `tokenizer.json`, in which the library `tokenizers` keeps a whole tokenizer: here its parts, as they stand there.
"""

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from minigpt.errors import InputError, is_whole, shown
from minigpt.files.disk import read_json, read_text
from minigpt.tokenizer import checksums, settings
from minigpt.tokenizer.bpe import END_OF_WORD, Pair
from minigpt.tokenizer.pipeline import Added

HUGGING_FACE_FILES = ("vocab.json", "merges.txt")
VOCABULARY = "vocab.txt"
TOKENIZER_JSON = "tokenizer.json"
LISTS = {  # the parts of a tokenizer.json that may be a `Sequence`, and the name of the list of steps in it
    "normalizer": "normalizers",
    "pre_tokenizer": "pretokenizers",
    "post_processor": "processors",
    "decoder": "decoders",
}
PARTS = ("version", "truncation", "padding", "added_tokens", *LISTS, "model")

_NAME = re.compile(r"<[^<>]+>|\[[^\[\]]+\]|_[a-z]+(?:_[0-9]+)?_")


def find(folder: Path, *choices: tuple[str, ...]) -> list[Path]:
    """The files of the first choice of names of which any exists in the folder; of the first one, where none does."""
    candidates = [[folder / name for name in names] for names in choices]
    for paths in candidates:
        if any(path.exists() for path in paths):
            return paths
    return candidates[0]


def disagreement(single: Path, *others: Path) -> InputError:
    """The error for two vocabularies in one folder."""
    names = " and ".join(path.name for path in others)
    return InputError(f"{single} holds another vocabulary than {names} beside it: keep one of them")


def tokens_from_ids(ids: Any, path: Path | str) -> list[str]:
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
    return tokens  # type: ignore[return-value]  # every place has one: so many ids, and none twice


def read_lines(path: Path) -> list[str]:
    """The tokens of a `vocab.txt`, one on each line. Raises InputError for a token that is there twice."""
    tokens = _lines(path)
    line_of = {}
    for number, token in enumerate(tokens, start=1):
        if token in line_of:
            raise InputError(f"{path}, line {number}: {token!r} stands on line {line_of[token]} already")
        line_of[token] = number
    return tokens


def _lines(path: Path) -> list[str]:
    lines = read_text(path).split("\n")
    if lines[-1] == "":
        lines.pop()
    return lines


# -------------------------------------------------------------------------------------------- vocab.json, merges.txt


def read_pair(vocabulary: Path, merges: Path) -> tuple[list[str], list[Pair]]:
    """(tokens, merges) of a `vocab.json` and a `merges.txt`.

    Raises InputError where a file is damaged or not what was saved, and where the two do not belong together.
    """
    tokens = tokens_from_ids(read_json(vocabulary), vocabulary)
    pairs = read_merges(merges)
    check_fit(tokens, pairs, vocabulary, merges)
    checksums.verify(vocabulary, tokens)
    checksums.verify(merges, lines_of(pairs))
    return tokens, pairs


def read_merges(path: Path) -> list[Pair]:
    """The merges of a `merges.txt`: a line `left right` for each, first learnt first, after a version line if any.

    Raises InputError, naming the line, for what is no merge, and for a merge that stands there twice.
    """
    lines = _lines(path)
    first = 1 if lines and lines[0].startswith("#version") else 0
    return pairs_of(lines[first:], path, "line", first + 1)


def lines_of(merges: Sequence[Pair]) -> list[str]:
    """The lines of a `merges.txt`, but for the first one."""
    return [f"{left} {right}" for left, right in merges]


def pairs_of(items: list, path: Path | str, unit: str, first: int) -> list[Pair]:
    """Merges from `"left right"` or `["left", "right"]`; what is wrong is named with its number, counted from first.

    Raises InputError for what is no merge, and for one that is there twice.
    """
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
    return all(isinstance(symbol, str) and symbol for symbol in symbols)


def check_fit(tokens: list[str], merges: list[Pair], vocabulary: Path | str, merges_file: Path | str) -> None:
    """Every symbol that a merge takes or makes must be in the vocabulary. Raises InputError, naming both files."""
    known = set(tokens)
    for number, (left, right) in enumerate(merges, start=1):
        for symbol in (left, right, left + right):
            if symbol not in known:
                lacks = f"merge {number}, '{left} {right}', needs the token {symbol!r}, which the vocabulary lacks"
                raise InputError(f"{vocabulary} and {merges_file} do not belong together: {lacks}")


def check_merges(tokens: Sequence[str], merges: Sequence[Pair], special: list[str], path: Path) -> None:
    """Every token must be a single character, special, or made by a merge: so a file that was cut short is noticed.

    A name in angle, square or low brackets (`<s>`, `[SEP]`, `_start_`) is special too: where no merge makes it, it can
    stand for nothing else. Raises InputError, naming the first token that no merge makes.
    """
    made = {left + right for left, right in merges}
    made.update(special)
    for i, token in enumerate(tokens):
        if token in made or len(token.removesuffix(END_OF_WORD)) <= 1 or _NAME.fullmatch(token):
            continue
        raise InputError(f"{path}: no merge makes the token {token!r} (id {i}): take the file from its source again")


# ----------------------------------------------------------------------------------------------------- tokenizer.json


def read_parts(path: Path) -> dict[str, Any]:
    """The content of a `tokenizer.json`. Raises InputError for what is no such file, and for a part that is not known.
    """
    saved = read_json(path)
    for part in saved:
        if part not in PARTS:
            raise InputError(f"{path}: its part {part!r} is not known here: known are {', '.join(PARTS)}")
    if saved.get("version", "1.0") != "1.0":
        raise InputError(f'{path}: its version is {shown(saved["version"])}: expected "1.0"')
    return saved


def model_type(saved: Mapping[str, Any]) -> str:
    """The type of the model in a `tokenizer.json`, as a text; "null" where there is no model."""
    model = saved.get("model")
    if not isinstance(model, dict):
        return "null"
    return str(model.get("type", "BPE"))  # the first versions of the library did not write it


def added_in(saved: Mapping[str, Any], path: Path) -> dict[int, Added]:
    """{id: token} of the `added_tokens` in a `tokenizer.json`. Raises InputError for what is no such token."""
    tokens = saved.get("added_tokens")
    if tokens is None:
        return {}
    expected = "expected a list of objects with content, id and special"
    if not isinstance(tokens, list):
        raise InputError(f"{path}: its added_tokens are {shown(tokens)}: {expected}")
    found = {}
    for token in tokens:
        sound = isinstance(token, dict) and {"content", "id", "special"} <= set(token)
        if not sound or not isinstance(token["content"], str) or not is_whole(token["id"]):
            raise InputError(f"{path}: its added_tokens have {shown(token)}: {expected}")
        one = settings.token_of({"normalized": not token["special"]} | token, f"{path}: its added_tokens")
        first = found.setdefault(token["id"], one)
        if first != one:
            raise InputError(f"{path}: tokens {first.token!r} and {one.token!r} have the same id {token['id']}")
    return found


def added_object(i: int, one: Added) -> dict[str, Any]:
    """An added token as a `tokenizer.json` writes it."""
    flags = one._asdict()
    return {"id": i, "content": flags.pop("token")} | flags

"""Reading and writing vocabulary files. An error names the file, and the line or the token that is wrong in it."""

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from minigpt.errors import InputError
from minigpt.files.disk import read_json, read_text, write_json, write_text
from minigpt.tokenizer import all_in_one, checksums, settings
from minigpt.tokenizer.all_in_one import Layout
from minigpt.tokenizer.bpe import END_OF_WORD, Pair
from minigpt.tokenizer.settings import CONFIG, Settings

HUGGING_FACE_FILES = ("vocab.json", "merges.txt")
ALL_IN_ONE = all_in_one.FILE
HEADER = "#version: 0.2"

_NAME = re.compile(r"<[^<>]+>|\[[^\[\]]+\]|_[a-z]+(?:_[0-9]+)?_")


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
    return pairs_of(lines[first:], path, "line", first + 1)


def pairs_of(items: list, path: Path, unit: str, first: int) -> list[Pair]:
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
    for symbol in symbols:
        if not isinstance(symbol, str) or symbol == "":
            return False
    return True


class Vocabulary(NamedTuple):
    """What the files of a byte-pair encoding hold."""

    tokens: list[str]  # in the order of their ids
    merges: list[Pair]  # first learnt first
    special: list[str]  # tokens that stand for no text
    prefix_space: bool  # whether a space is put before a text that begins with none


def read_bpe(folder: Path, layout: Layout, *choices: tuple[str, str], special: Sequence[str] = ()) -> Vocabulary:
    """The byte-pair encoding in a folder: in the first pair of these files that is there, in `tokenizer.json`, or both.

    layout: what `tokenizer.json` must say; special: tokens that are special by name, whatever the files say. Raises
    InputError where a file is missing, damaged or not what was saved, where one says what is not done here, and where
    the files do not belong together.
    """
    vocabulary, merges = find(folder, *choices)
    single = folder / ALL_IN_ONE
    beside = settings.read(folder)
    checksums.verify_settings(folder)
    has_pair = vocabulary.exists() or merges.exists()
    source = merges
    if has_pair or not single.exists():
        found = _read_pair(vocabulary, merges, beside)
    if single.exists():
        pair = found if has_pair else None
        found = _read_single(single, layout, beside)
        source = single
        if has_pair and pair[:2] != found[:2]:
            pair_of_files = f"{vocabulary.name} and {merges.name}"
            raise InputError(f"{single} holds another vocabulary than {pair_of_files} beside it: keep one of them")
    known = set(found.tokens)
    for token in beside.special:
        if token not in known:
            raise InputError(f"{folder / CONFIG} names the special token {token!r}, which the vocabulary lacks")
    names = dict.fromkeys([*special, *found.special, *beside.special])
    in_vocabulary = [token for token in names if token in known]
    check_merges(found.tokens, found.merges, in_vocabulary, source)
    return found._replace(special=in_vocabulary)


def _read_pair(vocabulary: Path, merges: Path, beside: Settings) -> Vocabulary:
    """The same from two files, and from the small ones beside them."""
    tokens = tokens_from_ids(read_json(vocabulary), vocabulary)
    pairs = read_merges(merges)
    check_fit(tokens, pairs, vocabulary, merges)
    checksums.verify(vocabulary, tokens)
    checksums.verify(merges, [f"{left} {right}" for left, right in pairs])
    tokens = _with_added(tokens, beside.added, vocabulary)
    return Vocabulary(tokens, pairs, [], bool(beside.prefix_space))


def _with_added(tokens: list[str], added: dict[str, int], path: Path) -> list[str]:
    """The tokens of a vocabulary, and after them those that are added. Raises InputError where their ids do not fit."""
    if not added:
        return tokens
    ids = {token: i for i, token in enumerate(tokens)}
    return tokens_from_ids(ids | added, path)


def _read_single(path: Path, layout: Layout, beside: Settings) -> Vocabulary:
    """The same from a `tokenizer.json`, as the `tokenizers` library writes it."""
    saved = all_in_one.read(path, layout)
    if not isinstance(saved.vocab, dict) or not isinstance(saved.merges, list):
        raise InputError(f"{path} holds no byte-pair encoding: expected a model with a vocab and merges")
    if beside.prefix_space not in (None, saved.prefix_space):
        raise InputError(f"{path} and {CONFIG} beside it do not agree on add_prefix_space: give both the same")
    tokens = tokens_from_ids(saved.vocab | saved.added, path)
    tokens = _with_added(tokens, beside.added, path)
    pairs = pairs_of(saved.merges, path, "merge", 1)
    check_fit(tokens, pairs, path, path)
    return Vocabulary(tokens, pairs, list(saved.added), saved.prefix_space)


def check_merges(tokens: list[str], merges: list[Pair], special: list[str], path: Path) -> None:
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
    write_json(folder / CONFIG, checksums.added_to(config, {vocabulary_name: tokens, merges_name: lines[1:]}))


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

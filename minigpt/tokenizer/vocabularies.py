"""Vocabularies of published models in a `vocab.txt`, or in `vocab.json` and `merges.txt`, told as a `tokenizer.json`.

BERT's relatives have a token on each line; the others spell words as GPT-2 does, and RoBERTa's and BART's ids are those
of fairseq, which the file itself holds. What each does beside its vocabulary stands in `vocabularies.toml`.
"""

import functools
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from minigpt.errors import InputError, shown
from minigpt.files.disk import read_toml
from minigpt.tokenizer import checksums, files, settings, steps_after
from minigpt.tokenizer.bpe import Pair
from minigpt.tokenizer.files import TOKENIZER_JSON, VOCABULARY
from minigpt.tokenizer.pipeline import TEXTS, Added, Template
from minigpt.tokenizer.settings import CONFIG

BERT = "BertTokenizer"
BERT_SETTINGS = {  # in tokenizer_config.json -> in tokenizer.json, and what it is where nothing is said
    "do_lower_case": ("lowercase", True),
    "strip_accents": ("strip_accents", None),
    "tokenize_chinese_chars": ("handle_chinese_chars", True),
}
AS_BYTES = {"type": "ByteLevel", "add_prefix_space": True, "trim_offsets": True, "use_regex": True}
FILLER = "madeupword"  # fairseq fills its vocabularies up with such words


class Member(NamedTuple):
    """One table of `vocabularies.toml`, which tells what the fields are."""

    classes: Sequence[str]
    files: Sequence[str]
    models: Mapping[str, str] = {}
    single: str = "$A:0"
    pair: str = "$A:0 $B:1"
    roles: Mapping[str, str] = {}
    optional: Sequence[str] = ()
    mask_lstrip: bool = False
    normalizer: str = ""
    pattern: str = ""


@functools.cache
def _tables() -> list[Member]:
    tables = read_toml(Path(__file__).with_suffix(".toml"))
    return [Member(**table) for table in tables.values()]


@functools.cache
def members() -> dict[str, Member]:
    """{class of a tokenizer: what it does}."""
    return {name: member for member in _tables() for name in member.classes}


def class_in(folder: Path, config: Mapping[str, Any]) -> str | None:
    """The class of a folder's tokenizer; where its configuration names none, by the type of its model."""
    if config.get("tokenizer_class") is not None:
        return settings.class_of(config)
    classes = {model: name for member in _tables() for model, name in member.models.items()}
    return classes.get(settings.model_type(folder))


def member_in(folder: Path, config: Mapping[str, Any]) -> Member | None:
    """The member of the table that a folder names, if it holds the files of that member."""
    member = members().get(class_in(folder, config) or "")
    if member is None or not all((folder / name).is_file() for name in member.files):
        return None
    return member


def read(folder: Path, member: Member) -> tuple[list[str], list[Pair]]:
    """(tokens, merges) of the files in a folder. Raises InputError where one is damaged or not what was saved."""
    paths = [folder / name for name in member.files]
    if len(paths) == 2:
        return files.read_pair(*paths)
    tokens = files.read_lines(paths[0])
    checksums.verify(paths[0], tokens)
    return tokens, []


def with_roles(config: dict[str, Any], member: Member, tokens: Collection[str], folder: Path) -> dict[str, Any]:
    """`tokenizer_config.json` with the special tokens that the other files name, or else the table."""
    known = set(tokens)
    found = {}
    name = class_in(folder, config)
    if name is not None:
        found["tokenizer_class"] = name
    for key, token in member.roles.items():
        if token in known or key not in member.optional:
            found[key] = token
    for key, one in settings.named_in(folder, config).items():
        found[key] = one.token
    return found | config


def described(
    tokens: Sequence[str], merges: Sequence[Pair], member: Member, config: Mapping[str, Any], folder: Path
) -> dict[str, Any]:
    """A member's tokenizer with this vocabulary, as a `tokenizer.json` tells it. config: what `with_roles` gives.

    Raises InputError where a special token is missing, where no merge makes a token, and for what is not built.
    """
    ids = {token: i for i, token in enumerate(tokens)}
    named = settings.named_in(folder, config)
    template = _template(member, named)
    for name, _ in template.items(2):
        if name not in TEXTS and name not in ids:
            raise InputError(f"{folder / member.files[0]} lacks the special token {name!r}: add it there")
    if VOCABULARY in member.files:
        steps = _words_of_bert(ids, named, config, folder)
    else:
        if not member.pattern:
            fillers = [token for token in tokens if token.startswith(FILLER)]
            special = [*(one.token for one in named.values()), *fillers]
            files.check_merges(tokens, merges, special, folder / member.files[1])
        steps = _words_as_bytes(ids, merges, member, config, folder)
    added = _added(named, ids, member, config)
    return steps | {"added_tokens": added, "post_processor": steps_after.settings_of(template, ids)}


def _template(member: Member, named: Mapping[str, Added]) -> Template:
    """What stands around texts, with the names that the files of a folder give to its special tokens."""
    names = {}
    for key, token in member.roles.items():
        if key in named:
            names[token] = named[key].token
    usual = Template(member.single, member.pair)
    single, pair = ([(names.get(name, name), segment) for name, segment in usual.items(n_texts)] for n_texts in (1, 2))
    return Template(tuple(single), tuple(pair))


def _added(
    named: Mapping[str, Added], ids: Mapping[str, int], member: Member, config: Mapping[str, Any]
) -> list[dict[str, Any]]:
    """The special tokens that the vocabulary has, in the order of their ids."""
    added = {}
    for key, one in named.items():
        if member.mask_lstrip and key == "mask_token" and not isinstance(config.get(key), dict):
            one = one._replace(lstrip=True)
        if one.token in ids:
            added[ids[one.token]] = one
    return [files.added_object(i, one) for i, one in sorted(added.items())]


def _words_as_bytes(
    ids: dict[str, int], merges: Sequence[Pair], member: Member, config: Mapping[str, Any], folder: Path
) -> dict[str, Any]:
    """The steps that make words as GPT-2 does, or by a pattern, and spell them as bytes."""
    prefix_space = bool(settings.prefix_space(config, folder))
    splitter = AS_BYTES | {"add_prefix_space": prefix_space, "use_regex": not member.pattern}
    if member.pattern:
        pattern = {"Regex": member.pattern}
        by_pattern = {"type": "Split", "pattern": pattern, "behavior": "Isolated", "invert": False}
        splitter = {"type": "Sequence", "pretokenizers": [by_pattern, splitter]}
    return {
        "normalizer": {"type": member.normalizer} if member.normalizer else None,
        "pre_tokenizer": splitter,
        "decoder": AS_BYTES,
        "model": {"type": "BPE", "vocab": ids, "merges": [list(pair) for pair in merges]},
    }


# ---------------------------------------------------------------------------------------------------------------- BERT


def _words_of_bert(
    ids: dict[str, int], named: Mapping[str, Added], config: Mapping[str, Any], folder: Path
) -> dict[str, Any]:
    """The steps that make words between white space and punctuation, and cut them into pieces."""
    _check_words(named, config, folder)
    normalizer = {"type": "BertNormalizer", "clean_text": True}
    for key, (setting, _) in BERT_SETTINGS.items():
        normalizer[setting] = _setting(config, key, folder)
    return {
        "normalizer": normalizer,
        "pre_tokenizer": {"type": "BertPreTokenizer"},
        "decoder": {"type": "WordPiece", "prefix": "##", "cleanup": True},
        "model": {"type": "WordPiece", "unk_token": named["unk_token"].token, "vocab": ids},
    }


def _setting(config: Mapping[str, Any], key: str, folder: Path) -> bool | None:
    _, usual = BERT_SETTINGS[key]
    value = config.get(key, usual)
    if value not in (True, False, None):
        raise InputError(f"{folder / CONFIG}: {key} is {shown(value)}: expected true or false")
    return usual if value is None else value


def _check_words(named: Mapping[str, Added], config: Mapping[str, Any], folder: Path) -> None:
    """Raise InputError for settings of BERT's old tokenizer that give other words than are given here."""
    if config.get("do_basic_tokenize", True) is not True:
        raise InputError(f"{folder / CONFIG}: do_basic_tokenize is false: text without BERT's own words is not built")
    kept = config.get("never_split") or []
    special = [one.token for one in named.values()]
    if not isinstance(kept, list) or not all(word in special for word in kept):
        raise InputError(f"{folder / CONFIG}: never_split is {shown(kept)}: words that are never split are not built")


def check_agreement(saved: Mapping[str, Any], config: Mapping[str, Any], folder: Path) -> None:
    """Raise InputError where `tokenizer.json` and `tokenizer_config.json` of BERT tell different things of the words.
    """
    normalizer = saved.get("normalizer")
    if isinstance(normalizer, dict) and normalizer.get("type") == "BertNormalizer":
        for key, (setting, usual) in BERT_SETTINGS.items():
            said = normalizer.get(setting, usual)
            if key in config and _setting(config, key, folder) != said:
                given = f"{key} is {shown(config[key])} in {CONFIG}, and {setting} is {shown(said)} in {TOKENIZER_JSON}"
                raise InputError(f"{folder}: two files disagree: {given}: give both the same")
    _check_words(settings.named_in(folder, config), config, folder)

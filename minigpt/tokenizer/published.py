"""The tokenizer in a published folder, whichever files it has: `tokenizer.json`, `vocab.txt`, or one of SentencePiece.

`open_folder` puts the steps together; what it opens is saved as `tokenizer.json`, with `vocab.txt` or the file of
SentencePiece beside it, and a `tokenizer_config.json`.
"""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from minigpt.errors import InputError, shown
from minigpt.files.disk import read_json, write_json, write_text
from minigpt.tokenizer import (
    checksums,
    files,
    settings,
    spiece,
    spiece_members,
    steps_after,
    tokenizer_json,
    vocab_and_merges,
)
from minigpt.tokenizer.bpe_model import BPEModel
from minigpt.tokenizer.files import HUGGING_FACE_FILES, TOKENIZER_JSON, VOCABULARY
from minigpt.tokenizer.pipeline import Added, PieceTokenizer, Template
from minigpt.tokenizer.settings import CONFIG, read_config
from minigpt.tokenizer.wordpiece import WordPiece

OWN = "minigpt_special_tokens"  # in tokenizer_config.json: special tokens that no text is encoded as
WORDPIECE_CLASSES = (
    "BertTokenizer", "ElectraTokenizer", "DistilBertTokenizer", "MobileBertTokenizer", "ConvBertTokenizer",
    "SqueezeBertTokenizer", "LayoutLMTokenizer", "RetriBertTokenizer", "DPRQuestionEncoderTokenizer",
    "DPRContextEncoderTokenizer", "DPRReaderTokenizer", "RealmTokenizer", "LxmertTokenizer",
)  # fmt: skip
BERT_SETTINGS = {  # in tokenizer_config.json -> in tokenizer.json, and what it is where nothing is said
    "do_lower_case": ("lowercase", True),
    "strip_accents": ("strip_accents", None),
    "tokenize_chinese_chars": ("handle_chinese_chars", True),
}
MODEL_TYPES = {  # in config.json: its published folders have no tokenizer_config.json
    "roberta": "RobertaTokenizer",
    "bart": "BartTokenizer",
    "longformer": "LongformerTokenizer",
    "led": "LEDTokenizer",
    "deberta": "DebertaTokenizer",
}
NOT_SAVED = (checksums.CHECKSUMS, OWN, "added_tokens_decoder", "name_or_path", "special_tokens_map_file")


def is_here(folder: Path) -> bool:
    """Does a folder hold the vocabulary of a published tokenizer in one file?"""
    return (folder / VOCABULARY).is_file() or spiece_members.find(folder) is not None


def open_folder(folder: Path) -> PieceTokenizer:
    """The tokenizer of a folder. Raises InputError where there is none, it is damaged, or a part of it is not built."""
    config = read_config(folder)
    if (folder / TOKENIZER_JSON).exists():
        return _of_json(folder)
    name = class_in(folder, config)
    if vocab_and_merges.is_here(folder, name):
        config = {"tokenizer_class": name} | vocab_and_merges.with_names(folder, config, name)
        saved = vocab_and_merges.described(folder, config, name)
        return _opened(saved, folder / HUGGING_FACE_FILES[0], config, folder)
    if (folder / VOCABULARY).exists():
        return _of_vocabulary(folder)
    return _of_spiece(folder)


# ------------------------------------------------------------------------------------------------------ tokenizer.json


def _of_json(folder: Path) -> PieceTokenizer:
    path = folder / TOKENIZER_JSON
    config = read_config(folder)
    saved = files.read_parts(path)
    if class_of(config) in WORDPIECE_CLASSES:
        _check_bert(saved, config, folder)
    _check_bytes(saved, config, folder)
    text = _opened(saved, path, config, folder)
    checksums.verify(path, _checked(text, saved))
    words = folder / VOCABULARY
    if words.exists() and isinstance(text.model, WordPiece) and files.read_lines(words) != text.model.tokens:
        raise files.disagreement(path, words)
    pair = [folder / name for name in HUGGING_FACE_FILES]
    if isinstance(text.model, BPEModel) and all(one.exists() for one in pair):
        tokens, merges = files.read_pair(*pair)
        shared = min(len(tokens), len(text.model.tokens))  # one of the two may list the added tokens as well
        if tokens[:shared] != text.model.tokens[:shared] or merges != text.model.merges:
            raise files.disagreement(path, *pair)
    return text


def _check_bytes(saved: Mapping[str, Any], config: Mapping[str, Any], folder: Path) -> None:
    """Raise InputError where `tokenizer_config.json` tells another thing of the space in front of a text."""
    splitter = saved.get("pre_tokenizer")
    if isinstance(splitter, dict) and splitter.get("type") == "ByteLevel":
        said = splitter.get("add_prefix_space", True)
        if config.get("add_prefix_space") not in (None, said):
            names = f"{TOKENIZER_JSON} and {CONFIG}"
            raise InputError(f"{folder}: {names} do not agree on add_prefix_space: give both the same")


def _opened(saved: dict[str, Any], path: Path, config: Mapping[str, Any], folder: Path) -> PieceTokenizer:
    """The tokenizer that is described as in a `tokenizer.json`, and by the small files beside it."""
    where = str(folder / CONFIG)
    own = config.get(OWN, [])
    if not isinstance(own, list) or not all(isinstance(name, str) for name in own):
        raise InputError(f"{where}: {OWN} is {shown(own)}: expected a list of names")
    named = settings.named_in(folder, config)
    special = [*named.values(), *settings.more_special(config, where)]
    more = list(settings.by_id(config, where).items())
    more += [(i, Added(token)) for token, i in settings.added_tokens(folder).items()]
    steps = {part: saved.get(part) for part in tokenizer_json.STEPS}

    def write(text: PieceTokenizer, into: Path) -> None:
        save(text, into, steps, config)

    text = tokenizer_json.open_tokenizer(saved, path, more=more, added=special, own=own, write=write)
    missing = [one.token for one in special if one.token not in text.ids]
    if missing:
        raise InputError(f"{where} names the special token {missing[0]!r}, which the vocabulary lacks")
    text.roles = settings.roles_of(named, {*own, *(one.token for one in text.added)})
    side = config.get("padding_side", text.padding_side)
    if side not in ("left", "right"):
        raise InputError(f"{where}: padding_side is {shown(side)}: expected left or right")
    text.padding_side = side
    return text


# ----------------------------------------------------------------------------------------------------------- vocab.txt


def _of_vocabulary(folder: Path) -> PieceTokenizer:
    path = folder / VOCABULARY
    config = read_config(folder)
    tokens = files.read_lines(path)
    checksums.verify(path, tokens)
    return _opened(described_bert(tokens, config, folder), path, config, folder)


def of_words(model: WordPiece, config: Mapping[str, Any]) -> PieceTokenizer:
    """BERT's tokenizer with this model. config: as in `tokenizer_config.json`."""
    nowhere = Path("a new vocabulary")
    return _opened(described_bert(model.tokens, config, nowhere), nowhere, config, nowhere)


def described_bert(tokens: list[str], config: Mapping[str, Any], folder: Path) -> dict[str, Any]:
    """BERT's tokenizer with these tokens, as a `tokenizer.json` describes it. config: `tokenizer_config.json`.

    Raises InputError where a token is missing, and for a setting that is not built.
    """
    ids = {token: i for i, token in enumerate(tokens)}
    named = settings.named_in(folder, config)
    in_brackets = {token for token in tokens if token.startswith("[")}
    special = settings.roles_of(named, in_brackets | {one.token for one in named.values() if one.token in ids})
    for role in ("unknown", "start", "delimiter"):
        if role not in special:
            raise InputError(f"{folder / VOCABULARY} has no token for {role}, such as [UNK], [CLS] or [SEP]: add it")
    normalizer = {"type": "BertNormalizer", "clean_text": True}
    for key, (setting, usual) in BERT_SETTINGS.items():
        normalizer[setting] = _setting(config, key, usual, folder)
    _check_words(config, special.values(), folder)
    flags = {"single_word": False, "lstrip": False, "rstrip": False, "normalized": False, "special": True}
    in_order = sorted(set(special.values()), key=ids.get)
    model = {"type": "WordPiece", "unk_token": special["unknown"], "vocab": ids}
    return {
        "added_tokens": [{"id": ids[token], "content": token, **flags} for token in in_order],
        "normalizer": normalizer,
        "pre_tokenizer": {"type": "BertPreTokenizer"},
        "post_processor": _bert_template(special, ids),
        "decoder": {"type": "WordPiece", "prefix": "##", "cleanup": True},
        "model": model,
    }


def _bert_template(special: Mapping[str, str], ids: Mapping[str, int]) -> dict[str, Any]:
    start, end = special["start"], special["delimiter"]
    single = f"{start}:0 $A:0 {end}:0"
    return steps_after.settings_of(Template(single, f"{single} $B:1 {end}:1"), ids)


def _setting(config: Mapping[str, Any], key: str, usual: bool | None, folder: Path) -> bool | None:
    value = config.get(key, usual)
    if value is None and key != "strip_accents":
        value = usual
    if value not in (True, False, None):
        raise InputError(f"{folder / CONFIG}: {key} is {shown(value)}: expected true or false")
    return value


def _check_words(config: Mapping[str, Any], special, folder: Path) -> None:
    """Raise InputError for settings of BERT's old tokenizer that give other words than are given here."""
    if config.get("do_basic_tokenize", True) is not True:
        raise InputError(f"{folder / CONFIG}: do_basic_tokenize is false: text without BERT's own words is not built")
    kept = config.get("never_split") or []
    if not isinstance(kept, list) or not set(kept) <= set(special):
        raise InputError(f"{folder / CONFIG}: never_split is {shown(kept)}: words that are never split are not built")


def _check_bert(saved: dict[str, Any], config: Mapping[str, Any], folder: Path) -> None:
    """Raise InputError where `tokenizer.json` and `tokenizer_config.json` tell different things of the words."""
    normalizer = saved.get("normalizer")
    if isinstance(normalizer, dict) and normalizer.get("type") == "BertNormalizer":
        for key, (setting, usual) in BERT_SETTINGS.items():
            said = normalizer.get(setting, usual)
            if key in config and _setting(config, key, usual, folder) != said:
                given = f"{key} is {shown(config[key])} in {CONFIG}, and {setting} is {shown(said)} in {TOKENIZER_JSON}"
                raise InputError(f"{folder}: two files disagree: {given}: give both the same")
    _check_words(config, {one.token for one in settings.named_in(folder, config).values()}, folder)


def class_in(folder: Path, config: Mapping[str, Any]) -> Any:
    """The same, and where the configuration names none, by the type of the model in `config.json` beside it."""
    path = folder / "config.json"
    if config.get("tokenizer_class") is None and path.exists():
        kind = read_json(path).get("model_type")
        return MODEL_TYPES.get(kind) if isinstance(kind, str) else None
    return class_of(config)


def class_of(config: Mapping[str, Any]) -> Any:
    """The class that a configuration names, without `Fast` at its end; None where it names none."""
    name = config.get("tokenizer_class")
    return name.removesuffix("Fast") if isinstance(name, str) else name


# -------------------------------------------------------------------------------------------------------- SentencePiece


def _of_spiece(folder: Path) -> PieceTokenizer:
    name = spiece_members.find(folder)
    return of_pieces(spiece_members.open_folder(folder), read_config(folder), folder, name.name if name else "")


def of_pieces(parts: spiece_members.Parts, config: Mapping[str, Any], folder: Path, name: str) -> PieceTokenizer:
    """The tokenizer of a file of SentencePiece; name: of that file, when it is saved.

    Raises InputError for a token that its pieces lack.
    """
    own = config.get(OWN, [])

    def write(text: PieceTokenizer, into: Path) -> None:
        spiece.write(into / name, parts.content)
        write_config(text, into, dict(config), {})

    added = []
    for one in parts.added:
        flags = {flag: one[flag] for flag in Added._fields[1:]}
        added.append(Added(one["content"], **flags))
    named = settings.named_in(folder, config)
    listed = {one.token for one in added}
    added += [one for one in named.values() if one.token in parts.model.ids and one.token not in listed]
    try:
        return PieceTokenizer(
            parts.model,
            normalizer=parts.normalizer,
            template=Template(parts.single, parts.pair),
            decoder=parts.decoder,
            added=added,
            roles=settings.roles_of(named, [one.token for one in added]) | parts.roles,
            own=own,
            padding_side=parts.member.padding_side,
            write=write,
        )
    except InputError as error:
        raise InputError(f"{folder}: {error}") from error


# -------------------------------------------------------------------------------------------------------------- saving


def save(text: PieceTokenizer, folder: Path, steps: Mapping[str, Any], config: Mapping[str, Any]) -> None:
    """Write `tokenizer.json`, `vocab.txt` where the model is WordPiece, and `tokenizer_config.json`."""
    tokenizer_json.write(folder / TOKENIZER_JSON, text, steps)
    lists = {TOKENIZER_JSON: _checked(text, steps)}
    if isinstance(text.model, WordPiece):
        write_text(folder / VOCABULARY, "\n".join(text.model.tokens) + "\n")
        lists[VOCABULARY] = text.model.tokens
    write_config(text, folder, {"tokenizer_class": "PreTrainedTokenizerFast"} | dict(config), lists)


def _checked(text: PieceTokenizer, steps: Mapping[str, Any]) -> list[str]:
    """What a checksum of `tokenizer.json` is of: the tokens and the steps."""
    described = {part: steps.get(part) for part in tokenizer_json.STEPS}
    return [*text.tokens, json.dumps(described, sort_keys=True)]


def write_config(text: PieceTokenizer, folder: Path, config: Mapping[str, Any], lists: dict[str, list[str]]) -> None:
    """Write `tokenizer_config.json`: what it said before, the tokens by their roles, our own, and checksums."""
    content = {key: value for key, value in config.items() if key not in NOT_SAVED}
    for role, token in text.roles.items():
        keys = settings.KEYS[role]
        if not any(key in content for key in keys):
            content[keys[0]] = token
    if text.own:
        content[OWN] = list(text.own)
    write_json(folder / CONFIG, checksums.added_to(content, lists))

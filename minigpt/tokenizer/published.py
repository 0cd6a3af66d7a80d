"""The tokenizer in a published folder, whichever files it has, as steps; and the files that it is saved in.

A `tokenizer.json` tells the steps. A vocabulary in other files is told as the content of such a file
(`vocabularies.py`); a file of SentencePiece has its own steps (`spiece_members.py`).
"""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from minigpt.errors import InputError
from minigpt.files.disk import write_json, write_text
from minigpt.tokenizer import checksums, files, settings, spiece_members, tokenizer_json, vocabularies
from minigpt.tokenizer.bpe import Pair
from minigpt.tokenizer.bpe_model import BPEModel
from minigpt.tokenizer.files import HUGGING_FACE_FILES, TOKENIZER_JSON, VOCABULARY
from minigpt.tokenizer.pipeline import Added, PieceTokenizer
from minigpt.tokenizer.settings import CONFIG
from minigpt.tokenizer.vocabularies import Member
from minigpt.tokenizer.wordpiece import WordPiece


def open_folder(folder: Path) -> PieceTokenizer:
    """The tokenizer of a folder. Raises InputError where there is none, it is damaged, or a part of it is not built."""
    config = settings.read_config(folder)
    if (folder / TOKENIZER_JSON).exists():
        return _of_json(folder, config)
    member = vocabularies.member_in(folder, config)
    if member is None and (folder / VOCABULARY).exists():
        member = vocabularies.members()[vocabularies.BERT]
    if member is None:
        return spiece_members.open_folder(folder)
    tokens, merges = vocabularies.read(folder, member)
    return of_vocabulary(tokens, merges, member, config, folder)


def of_vocabulary(
    tokens: Sequence[str], merges: Sequence[Pair], member: Member, config: dict[str, Any], folder: Path
) -> PieceTokenizer:
    """The tokenizer of a member of `vocabularies.toml` with these tokens. config: as in `tokenizer_config.json`.

    Raises InputError as `vocabularies.described` does.
    """
    config = vocabularies.with_roles(config, member, tokens, folder)
    saved = vocabularies.described(tokens, merges, member, config, folder)
    return _opened(saved, folder / member.files[0], config)


def _of_json(folder: Path, config: Mapping[str, Any]) -> PieceTokenizer:
    path = folder / TOKENIZER_JSON
    saved = files.read_parts(path)
    member = vocabularies.members().get(settings.class_of(config))
    if member is vocabularies.members()[vocabularies.BERT]:
        vocabularies.check_agreement(saved, config, folder)
    _check_bytes(saved, config, folder)
    text = _opened(saved, path, config)
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


def _opened(saved: Mapping[str, Any], path: Path, config: Mapping[str, Any]) -> PieceTokenizer:
    """The tokenizer that is told as in a `tokenizer.json`, and by the small files beside it."""
    folder = path.parent
    own = settings.own_in(config, folder)
    named = settings.named_in(folder, config)
    special = [*named.values(), *settings.more_special(config, folder / CONFIG)]
    more = list(settings.by_id(config, folder / CONFIG).items())
    more += [(i, Added(token)) for token, i in settings.added_tokens(folder).items()]
    text = tokenizer_json.open_tokenizer(saved, path, more=more, added=special, own=own)
    missing = [one.token for one in special if one.token not in text.ids]
    if missing:
        raise InputError(f"{folder / CONFIG} names the special token {missing[0]!r}, which the vocabulary lacks")
    text.roles = settings.roles_of(named, {*own, *(one.token for one in text.added)})
    text.padding_side = settings.padding_side(config, text.padding_side, folder)
    steps = {part: saved.get(part) for part in tokenizer_json.STEPS}
    text.write = lambda text, into: _save(text, into, steps, config)
    return text


def _save(text: PieceTokenizer, folder: Path, steps: Mapping[str, Any], config: Mapping[str, Any]) -> None:
    """Write `tokenizer.json`, `vocab.txt` where the model is WordPiece, and `tokenizer_config.json`."""
    write_json(folder / TOKENIZER_JSON, tokenizer_json.described(text, steps), indent=None)
    lists = {TOKENIZER_JSON: _checked(text, steps)}
    if isinstance(text.model, WordPiece):
        write_text(folder / VOCABULARY, "\n".join(text.model.tokens) + "\n")
        lists[VOCABULARY] = text.model.tokens
    said = {"tokenizer_class": "PreTrainedTokenizerFast"} | settings.said_of(text, config)
    checksums.write_config(folder, said, lists)


def _checked(text: PieceTokenizer, steps: Mapping[str, Any]) -> list[str]:
    """What a checksum of `tokenizer.json` is of: the tokens and the steps."""
    described = {part: steps.get(part) for part in tokenizer_json.STEPS}
    return [*text.tokens, json.dumps(described, sort_keys=True)]

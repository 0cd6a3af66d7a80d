"""Published models with a file of SentencePiece: ALBERT, XLNet, T5, mT5, XLM-R, mBART, DeBERTa-v3, LLaMA, Mistral.

A folder of theirs holds the file and a `tokenizer_config.json`. What they do beside the file (lower case, ids that are
shifted, the tokens around a text) stands in `spiece_members.toml`. `open_folder` puts it together as the steps of a
tokenizer: change the text, cut it into pieces, put the special tokens around the ids, and the way back.
"""

import functools
import unicodedata
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from minigpt.errors import InputError, shown
from minigpt.files.disk import read_toml
from minigpt.tokenizer import checksums, settings, spiece
from minigpt.tokenizer.pipeline import Added, PieceTokenizer, Template
from minigpt.tokenizer.sentencepiece_bpe import SentencePieceBPE
from minigpt.tokenizer.settings import CONFIG
from minigpt.tokenizer.spiece import Piece, SentencePieceFile
from minigpt.tokenizer.spiece_text import Decoder, Normalizer
from minigpt.tokenizer.unigram import Unigram

NAMES = ("spiece.model", "spm.model", "sentencepiece.bpe.model", "tokenizer.model")  # of the file, as published
# {type of the model in a file: what makes it of the file's content}
MODELS: dict[str, Any] = {"unigram": Unigram.of, "bpe": SentencePieceBPE}

_SHIFTED = {"<s>": spiece.CONTROL, "<pad>": spiece.CONTROL, "</s>": spiece.CONTROL, "<unk>": spiece.UNKNOWN}
_OPTIONS = {"do_lower_case": "lower", "keep_accents": "accents", "remove_space": "strip", "extra_ids": "extra_ids"}
_OF_PACKAGE = "sp_model_kwargs"


class Member(NamedTuple):
    """One table of `spiece_members.toml`. accents: they stay."""

    name: str
    classes: tuple[str, ...] = ()
    file: str = NAMES[0]
    single: str = "$A:0"
    pair: str = "$A:0 $B:1"
    roles: Mapping[str, str] = {}
    padding_side: str = "right"
    mask_lstrip: bool = False
    strip: bool = False
    quotes: bool = False
    accents: bool = True
    lower: bool = False
    number_comma: bool = False
    fairseq: bool = False
    extra_ids: int = 0
    appended: tuple[str, ...] = ()


@functools.cache
def members() -> dict[str, Member]:
    """All members by their name, which is the `model_type` of their configuration."""
    tables = read_toml(Path(__file__).with_suffix(".toml"))
    return {name: Member(name, **table) for name, table in tables.items()}


@functools.cache
def by_class() -> dict[str, Member]:
    """All members by the class of their tokenizer in transformers, without `Fast` at its end."""
    return {name: member for member in members().values() for name in member.classes}


def find(folder: Path) -> Path | None:
    """The file of SentencePiece in a folder; None where there is none."""
    for name in NAMES:
        if (folder / name).is_file():
            return folder / name
    return None


def member_of(folder: Path) -> Member:
    """The member whose folder this is, with the settings and the added tokens that the folder has.

    It is told by the class of its tokenizer, else by the type of its model. One that neither file names is taken for
    none: ids of the file, and no tokens around a text. Raises InputError for a setting that cannot be.
    """
    config = settings.read_config(folder)
    if config.get(_OF_PACKAGE):
        given = f"{folder / CONFIG}: {_OF_PACKAGE} is {shown(config[_OF_PACKAGE])}"
        raise InputError(f"{given}: what the package sentencepiece can be told, such as to sample, is not done here")
    member = by_class().get(settings.class_of(config))
    if member is None:
        member = members().get(settings.model_type(folder), Member("sentencepiece"))
    for option, name in _OPTIONS.items():
        if option in config:
            value = _checked(config[option], getattr(member, name), option, folder)
            member = member._replace(**{name: value})
    if member.name == "llama":
        member = _with_ends(member, config, folder)
    added = settings.added_tokens(folder)
    in_order = sorted(added, key=added.__getitem__)
    return member._replace(appended=tuple(dict.fromkeys([*member.appended, *in_order])))


def _with_ends(member: Member, config: Mapping[str, Any], folder: Path) -> Member:
    """With the tokens around a text that a folder of LLaMA's tells: the first alone, where it tells nothing."""
    around = {}
    for option, usual in (("add_bos_token", True), ("add_eos_token", False)):
        value = config.get(option)
        around[option] = _checked(usual if value is None else value, usual, option, folder)
    first = [member.roles["start"]] if around["add_bos_token"] else []
    last = [member.roles["end"]] if around["add_eos_token"] else []
    texts = []
    for segment, text in enumerate(("$A", "$B")):
        texts.append(" ".join(f"{token}:{segment}" for token in (*first, text, *last)))
    return member._replace(single=texts[0], pair=" ".join(texts))


def _checked(value: Any, default: Any, option: str, folder: Path) -> Any:
    """A setting of the same type as its default. Raises InputError for another."""
    if type(value) is not type(default) or value < 0:
        expected = "true or false" if isinstance(default, bool) else "a whole number of 0 or more"
        raise InputError(f"{folder / CONFIG}: {option} is {value!r}: expected {expected}")
    return value


def open_folder(folder: Path) -> PieceTokenizer:
    """The tokenizer of a folder. Raises InputError where there is none, and for what is damaged or not built."""
    path = find(folder)
    if path is None:
        raise InputError(f"{folder} holds no file of SentencePiece: expected {', '.join(NAMES)}")
    return tokenizer_of(member_of(folder), spiece.read(path), settings.read_config(folder), path)


def tokenizer_of(
    member: Member, content: SentencePieceFile, config: Mapping[str, Any], path: Path
) -> PieceTokenizer:
    """A member's tokenizer with the content of this file. config: as in `tokenizer_config.json`; path: of the file.

    Raises InputError for a type of model that is not built, and for a special token that its pieces lack.
    """
    if content.model_type not in MODELS:
        known = ", ".join(MODELS)
        raise InputError(f"the model of the file is of the type {content.model_type!r}: built are {known}")
    shifted = content._replace(pieces=_pieces_of(member, content))
    model = MODELS[content.model_type](shifted)
    user_defined = content.pieces_of_kind(spiece.USER_DEFINED)
    normalizer = Normalizer(content.normalizer, user_defined, content.trainer.treat_whitespace_as_suffix)
    own = settings.own_in(config, path.parent)
    side = settings.padding_side(config, member.padding_side, path.parent)
    named = settings.named_in(path.parent, config)
    for key, one in named.items():
        if one.token not in model.ids:
            raise InputError(f"{path.parent}: {key} is {one.token!r}, which the vocabulary lacks")
    roles = {role: token for role, token in member.roles.items() if token in model.ids}
    mask = roles.get("mask") if member.mask_lstrip else None
    added = {token: Added(token, lstrip=token == mask) for token in (*roles.values(), *_appended(member))}
    for one in named.values():
        added.setdefault(one.token, one)

    def write(text: PieceTokenizer, into: Path) -> None:
        spiece.write(into / path.name, content)
        checksums.write_config(into, settings.said_of(text, config), {})

    try:
        return PieceTokenizer(
            model,
            normalizer=lambda text: normalizer(prepared(text, member)),
            template=Template(member.single, member.pair),
            decoder=Decoder(shifted),
            added=added.values(),
            roles=settings.roles_of(named, added) | roles,
            own=own,
            padding_side=side,
            write=write,
        )
    except InputError as error:
        raise InputError(f"{path.parent}: {error}") from error


def _appended(member: Member) -> list[str]:
    """The tokens after the last piece: sentinels are counted from the end."""
    sentinels = [f"<extra_id_{i}>" for i in reversed(range(member.extra_ids))]
    return [*sentinels, *member.appended]


def _pieces_of(member: Member, content: SentencePieceFile) -> list[Piece]:
    """The pieces in the order of the member's ids."""
    pieces = content.pieces
    if member.number_comma:
        pieces = [_without_number_comma(piece) for piece in pieces]
    if member.fairseq:
        first = tuple(piece.text for piece in pieces[:3])
        if first != spiece.SPECIAL:
            raise InputError(f"the first pieces of the file are {first}: {member.name} has {spiece.SPECIAL} there")
        pieces = [Piece(token, 0.0, kind) for token, kind in _SHIFTED.items()] + pieces[3:]
    known = {piece.text for piece in pieces}
    more = [Piece(token, 0.0, spiece.CONTROL) for token in _appended(member) if token not in known]
    return [*pieces, *more]


def _without_number_comma(piece: Piece) -> Piece:
    text, score, kind = piece
    if kind == spiece.NORMAL and text.endswith(",") and text[-2:-1].isdigit():
        return Piece(text, score, spiece.UNUSED)
    return piece


def prepared(text: str, member: Member) -> str:
    """A text as the member changes it before the normaliser of the file does."""
    if member.strip:
        text = " ".join(text.split())
    if member.quotes:
        text = text.replace("``", '"').replace("''", '"')
    if not member.accents:
        decomposed = unicodedata.normalize("NFKD", text)
        text = "".join(c for c in decomposed if not unicodedata.combining(c))
    if member.lower:
        text = text.lower()
    return text

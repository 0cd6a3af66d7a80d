"""The tokenizer in the settings of a GGUF file, as `tokenizer.json` and `tokenizer_config.json`.

Two kinds are built, by `tokenizer.ggml.model`: "gpt2", byte-level with merges, whose words `tokenizer.ggml.pre` names
(`gguf_words.toml`); and "llama", SentencePiece's with scores and bytes. The numbers in `tokenizer.ggml.token_type` are
those of SentencePiece.
"""

import functools
import tomllib
from collections.abc import Mapping, Sequence
from importlib.resources import files
from pathlib import Path
from typing import Any, NamedTuple

from minigpt.errors import InputError, is_number, is_whole, shown
from minigpt.tokenizer import spiece, steps_after, tokenizer_json
from minigpt.tokenizer.bpe_model import BYTES
from minigpt.tokenizer.pipeline import Pattern, Template
from minigpt.tokenizer.sentencepiece_bpe import IDENTITY, SentencePieceBPE
from minigpt.tokenizer.spiece import SPACE, Piece, SentencePieceFile, TrainerSpec

PREFIX = "tokenizer.ggml."
TEMPLATE = "tokenizer.chat_template"
ROLES = {"bos": "bos", "eos": "eos", "unk": "unknown", "pad": "padding"}  # {in tokenizer_config.json: in the file}
SPECIAL = (spiece.UNKNOWN, spiece.CONTROL, spiece.USER_DEFINED)  # kinds of tokens that may have a role


class Described(NamedTuple):
    """The contents of `tokenizer.json` and `tokenizer_config.json`; ids: of `config.json`, {"bos_token_id": 1, ...}."""

    tokenizer: dict[str, Any]
    config: dict[str, Any]
    ids: dict[str, int]


class Words(NamedTuple):
    """One table of `gguf_words.toml`."""

    names: Sequence[str]
    digits: bool = False
    words: Sequence[str] = ()
    whole_words: bool = False
    bos: bool = False
    form: str | None = None


class Vocabulary(NamedTuple):
    """What a file says: tokens in the order of their ids, the kind of each, and the tokens with a role by its name."""

    tokens: list[str]
    kinds: list[int]
    roles: dict[str, str]

    @property
    def ids(self) -> dict[str, int]:
        """{token: id}"""
        return {token: i for i, token in enumerate(self.tokens)}


@functools.cache
def words_by_name() -> dict[str, Words]:
    """{name in `tokenizer.ggml.pre`: how a text is cut into words}"""
    text = files("minigpt.tokenizer").joinpath("gguf_words.toml").read_text(encoding="utf-8")
    tables = [Words(**table) for table in tomllib.loads(text).values()]
    return {name: table for table in tables for name in table.names}


def described(settings: Mapping[str, Any], path: Path) -> Described:
    """The files of a tokenizer. path: of the GGUF file, for messages.

    Raises InputError for a kind of tokenizer or of words that is not built, and for what is missing or damaged.
    """
    makers = {"gpt2": _of_bytes, "llama": _of_pieces}
    kind = settings.get(f"{PREFIX}model")
    if kind not in makers:
        built = " and ".join(map(repr, makers))
        raise InputError(f"{path}: its tokenizer is of the kind {shown(kind)}: built are {built}")
    vocabulary = _vocabulary(settings, path)
    steps, model, begins = makers[kind](settings, vocabulary, path)
    around = {
        "bos": _flag(settings, "add_bos_token", begins, path) and "bos" in vocabulary.roles,
        "eos": _flag(settings, "add_eos_token", False, path) and "eos" in vocabulary.roles,
    }
    saved = {
        "version": "1.0",
        "truncation": None,
        "padding": None,
        "added_tokens": _added(vocabulary),
        "normalizer": None,
        "pre_tokenizer": None,
        "post_processor": _template(vocabulary, around),
        "decoder": None,
        "model": model,
    }
    saved |= steps
    tokenizer_json.open_tokenizer(saved, path)  # which raises InputError where the parts do not fit
    config = {"tokenizer_class": "PreTrainedTokenizerFast", "clean_up_tokenization_spaces": False}
    config |= {f"{role}_token": token for role, token in vocabulary.roles.items()}
    config |= {f"add_{role}_token": added for role, added in around.items()}
    template = settings.get(TEMPLATE)
    if isinstance(template, str):
        config["chat_template"] = template
    ids = {f"{role}_token_id": vocabulary.ids[token] for role, token in vocabulary.roles.items() if role != "unk"}
    return Described(saved, config, ids)


# ------------------------------------------------------------------------------------------------------ what is there


def _list(settings: Mapping[str, Any], name: str, kind: type, path: Path, default: list | None = None) -> list:
    """A list of the tokenizer. Raises InputError where it is missing, or holds something else."""
    values = settings.get(f"{PREFIX}{name}", default)
    if not isinstance(values, list) or not all(isinstance(value, kind) for value in values):
        raise InputError(f"{path}: {PREFIX}{name} is {shown(values)}: expected a list of {kind.__name__}")
    return values


def _flag(settings: Mapping[str, Any], name: str, default: bool, path: Path) -> bool:
    value = settings.get(f"{PREFIX}{name}", default)
    if not isinstance(value, bool):
        raise InputError(f"{path}: {PREFIX}{name} is {shown(value)}: expected true or false")
    return value


def _vocabulary(settings: Mapping[str, Any], path: Path) -> Vocabulary:
    tokens = _list(settings, "tokens", str, path)
    kinds = _list(settings, "token_type", int, path, [spiece.NORMAL] * len(tokens))
    if len(kinds) != len(tokens):
        raise InputError(f"{path}: it has {len(tokens)} tokens, and {len(kinds)} of {PREFIX}token_type")
    first = {}
    for i, token in enumerate(tokens):
        if first.setdefault(token, i) != i:
            raise InputError(f"{path}: the token {token[:60]!r} is there twice, as {first[token]} and {i}")
    kinds = list(kinds)
    roles = {}
    for role, name in ROLES.items():
        i = settings.get(f"{PREFIX}{name}_token_id")
        if i is None:
            continue
        if not is_whole(i) or not 0 <= i < len(tokens):
            raise InputError(f"{path}: {PREFIX}{name}_token_id is {shown(i)}: there are {len(tokens)} tokens")
        if role in ("bos", "eos") and kinds[i] == spiece.NORMAL:
            kinds[i] = spiece.CONTROL
        if kinds[i] in SPECIAL:  # a file may name token 0, which stands for text, where there is none for padding
            roles[role] = tokens[i]
    return Vocabulary(tokens, kinds, roles)


def _added(vocabulary: Vocabulary) -> list[dict[str, Any]]:
    """The tokens that are cut out of a text before anything else."""
    added = []
    flags = {"single_word": False, "lstrip": False, "rstrip": False, "normalized": False}
    for i, (token, kind) in enumerate(zip(vocabulary.tokens, vocabulary.kinds, strict=True)):
        if kind in SPECIAL:
            added.append({"id": i, "content": token, **flags, "special": kind != spiece.USER_DEFINED})
    return added


def _template(vocabulary: Vocabulary, around: Mapping[str, bool]) -> dict[str, Any] | None:
    """The tokens that begin and end each text; None where there are none."""
    if not any(around.values()):
        return None
    single = _wrapped("$A", 0, vocabulary, around)
    template = Template(single, (*single, *_wrapped("$B", 1, vocabulary, around)))
    return steps_after.settings_of(template, vocabulary.ids)


def _wrapped(text: str, segment: int, vocabulary: Vocabulary, around: Mapping[str, bool]) -> Pattern:
    before = [vocabulary.roles["bos"]] if around["bos"] else []
    after = [vocabulary.roles["eos"]] if around["eos"] else []
    return tuple((name, segment) for name in (*before, text, *after))


# ----------------------------------------------------------------------------------------------------- the two kinds


def _of_bytes(settings: Mapping[str, Any], vocabulary: Vocabulary, path: Path) -> tuple[dict, dict, bool]:
    """(steps, model, whether a token begins each text) of a byte-level vocabulary with merges."""
    name = settings.get(f"{PREFIX}pre")
    if name not in words_by_name():
        known = ", ".join(words_by_name())
        raise InputError(f"{path}: {PREFIX}pre is {shown(name)}, words that are not built: built are {known}")
    if _flag(settings, "add_space_prefix", False, path):
        raise InputError(f"{path}: {PREFIX}add_space_prefix is true: with a byte-level vocabulary it is not built")
    cut = words_by_name()[name]
    merges = [merge.split(" ") for merge in _list(settings, "merges", str, path)]
    model = {"type": "BPE", "ignore_merges": cut.whole_words, "vocab": vocabulary.ids, "merges": merges}
    bytes_after = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": not cut.words}
    splitters = [bytes_after]
    if cut.words:
        pattern = {"Regex": "|".join(cut.words)}
        splitters.insert(0, {"type": "Split", "pattern": pattern, "behavior": "Isolated", "invert": False})
    if cut.digits:
        splitters.insert(0, {"type": "Digits", "individual_digits": True})
    steps = {
        "normalizer": {"type": cut.form} if cut.form else None,
        "pre_tokenizer": {"type": "Sequence", "pretokenizers": splitters},
        "decoder": {"type": "ByteLevel", "add_prefix_space": True, "trim_offsets": True, "use_regex": True},
    }
    return steps, model, cut.bos


def _of_pieces(settings: Mapping[str, Any], vocabulary: Vocabulary, path: Path) -> tuple[dict, dict, bool]:
    """(steps, model, whether a token begins each text) of SentencePiece's pieces with their scores."""
    scores = settings.get(f"{PREFIX}scores")
    if not isinstance(scores, list) or not all(map(is_number, scores)) or len(scores) != len(vocabulary.tokens):
        raise InputError(f"{path}: {PREFIX}scores are {shown(scores)}: expected a number for each token")
    pieces = []
    for token, score, kind in zip(vocabulary.tokens, scores, vocabulary.kinds, strict=True):
        apart = kind in (spiece.USER_DEFINED, spiece.UNUSED)  # no merge makes them: some are cut out, some never used
        pieces.append(Piece(token, score, spiece.CONTROL if apart else kind))
    if [piece.kind for piece in pieces].count(spiece.UNKNOWN) != 1:
        raise InputError(f"{path}: expected one token that stands for what is unknown, of the type {spiece.UNKNOWN}")
    trainer = TrainerSpec(spiece.BPE, len(pieces), byte_fallback=set(BYTES) <= set(vocabulary.tokens))
    model = SentencePieceBPE(SentencePieceFile(pieces, trainer, IDENTITY)).to_json()
    prefix = _flag(settings, "add_space_prefix", True, path)
    before = [{"type": "Prepend", "prepend": SPACE}] if prefix else []
    before.append({"type": "Replace", "pattern": {"String": " "}, "content": SPACE})
    after = [{"type": "Replace", "pattern": {"String": SPACE}, "content": " "}]
    after += [{"type": "ByteFallback"}, {"type": "Fuse"}]
    if prefix:
        after.append({"type": "Strip", "content": " ", "start": 1, "stop": 0})
    steps = {
        "normalizer": {"type": "Sequence", "normalizers": before},
        "decoder": {"type": "Sequence", "decoders": after},
    }
    return steps, model, True

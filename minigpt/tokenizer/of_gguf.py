"""The tokenizer in the settings of a GGUF file, as `tokenizer.json` and `tokenizer_config.json`.

Two kinds are built, by `tokenizer.ggml.model`: "gpt2", byte-level with merges, whose words `tokenizer.ggml.pre` names
(`gguf_words.toml`); and "llama", SentencePiece's with scores and bytes. The numbers in `tokenizer.ggml.token_type` are
those of SentencePiece.
"""

import functools
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from minigpt.errors import InputError, is_number, is_whole, shown
from minigpt.files.disk import read_toml
from minigpt.tokenizer import files, spiece, steps_after, tokenizer_json
from minigpt.tokenizer.pipeline import Added, Template
from minigpt.tokenizer.sentencepiece_bpe import SentencePieceBPE
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
    tables = [Words(**table) for table in read_toml(Path(__file__).with_name("gguf_words.toml")).values()]
    return {name: table for table in tables for name in table.names}


def described(settings: Mapping[str, Any], path: Path) -> Described:
    """The files of a tokenizer. path: of the GGUF file, for messages.

    Raises InputError for a kind of tokenizer or of words that is not built, and for what is missing or damaged.
    """
    file = _File(settings, path)
    makers = {"gpt2": _of_bytes, "llama": _of_pieces}
    maker = makers[file.choice("model", makers)]
    vocabulary = _vocabulary(file)
    steps, model, begins = maker(file, vocabulary)
    around = {
        "bos": file.flag("add_bos_token", begins) and "bos" in vocabulary.roles,
        "eos": file.flag("add_eos_token", False) and "eos" in vocabulary.roles,
    }
    parts = dict.fromkeys(files.PARTS) | steps
    parts["version"] = "1.0"
    parts["added_tokens"] = _added(vocabulary)
    parts["post_processor"] = _template(vocabulary, around)
    parts["model"] = model
    tokenizer_json.open_tokenizer(parts, path)  # which raises InputError where the parts do not fit
    config = {"tokenizer_class": "PreTrainedTokenizerFast", "clean_up_tokenization_spaces": False}
    ids = {}
    for role, token in vocabulary.roles.items():
        config[f"{role}_token"] = token
        if role != "unk":
            ids[f"{role}_token_id"] = vocabulary.ids[token]
    for role, added in around.items():
        config[f"add_{role}_token"] = added
    template = settings.get(TEMPLATE)
    if isinstance(template, str):
        config["chat_template"] = template
    return Described(parts, config, ids)


# ------------------------------------------------------------------------------------------------------ what is there


class _File(NamedTuple):
    """The settings of the tokenizer in a GGUF file, by their names without `tokenizer.ggml.`."""

    settings: Mapping[str, Any]
    path: Path

    def get(self, name: str, default: Any = None) -> Any:
        return self.settings.get(f"{PREFIX}{name}", default)

    def refused(self, name: str, expected: str) -> InputError:
        return InputError(f"{self.path}: {PREFIX}{name} is {shown(self.get(name))}: {expected}")

    def choice(self, name: str, known: Iterable[str]) -> str:
        value = self.get(name)
        if not isinstance(value, str) or value not in known:
            raise self.refused(name, f"built are {', '.join(known)}")
        return value

    def list(self, name: str, is_item: Callable[[Any], bool], items: str, default: Any = None) -> list:
        values = self.get(name, default)
        if not isinstance(values, list) or not all(map(is_item, values)):
            raise self.refused(name, f"expected a list of {items}")
        return values

    def flag(self, name: str, default: bool) -> bool:
        value = self.get(name, default)
        if not isinstance(value, bool):
            raise self.refused(name, "expected true or false")
        return value


def _is_text(value: Any) -> bool:
    return isinstance(value, str)


def _is_finite(value: Any) -> bool:
    return is_number(value) and math.isfinite(value)


def _vocabulary(file: _File) -> Vocabulary:
    tokens = file.list("tokens", _is_text, "texts")
    kinds = list(file.list("token_type", is_whole, "numbers", [spiece.NORMAL] * len(tokens)))
    if len(kinds) != len(tokens):
        raise file.refused("token_type", f"expected one for each of {len(tokens)} tokens")
    first = {}
    for i, token in enumerate(tokens):
        if first.setdefault(token, i) != i:
            raise InputError(f"{file.path}: the token {token[:60]!r} is there twice, as {first[token]} and {i}")
    roles = {}
    for role, name in ROLES.items():
        i = file.get(f"{name}_token_id")
        if i is None:
            continue
        if not is_whole(i) or not 0 <= i < len(tokens):
            raise file.refused(f"{name}_token_id", f"there are {len(tokens)} tokens")
        if role in ("bos", "eos") and kinds[i] == spiece.NORMAL:
            kinds[i] = spiece.CONTROL
        if kinds[i] in SPECIAL:  # a file may name token 0, which stands for text, where there is none for padding
            roles[role] = tokens[i]
    return Vocabulary(tokens, kinds, roles)


def _added(vocabulary: Vocabulary) -> list[dict[str, Any]]:
    """The tokens that are cut out of a text before anything else."""
    added = []
    for i, token in enumerate(vocabulary.tokens):
        kind = vocabulary.kinds[i]
        if kind in SPECIAL:
            added.append(files.added_object(i, Added(token, special=kind != spiece.USER_DEFINED)))
    return added


def _template(vocabulary: Vocabulary, around: Mapping[str, bool]) -> dict[str, Any] | None:
    """The tokens that begin and end each text; None where there are none."""
    if not any(around.values()):
        return None
    before = [vocabulary.roles["bos"]] if around["bos"] else []
    after = [vocabulary.roles["eos"]] if around["eos"] else []
    single = [(name, 0) for name in (*before, "$A", *after)]
    second = [(name, 1) for name in (*before, "$B", *after)]
    return steps_after.settings_of(Template(tuple(single), tuple(single + second)), vocabulary.ids)


# ----------------------------------------------------------------------------------------------------- the two kinds


def _of_bytes(file: _File, vocabulary: Vocabulary) -> tuple[dict, dict, bool]:
    """(steps, model, whether a token begins each text) of a byte-level vocabulary with merges."""
    cut = words_by_name()[file.choice("pre", words_by_name())]
    if file.flag("add_space_prefix", False):
        raise file.refused("add_space_prefix", "with a byte-level vocabulary it is not built")
    merges = [merge.split(" ") for merge in file.list("merges", _is_text, "texts")]
    model = {"type": "BPE", "ignore_merges": cut.whole_words, "vocab": vocabulary.ids, "merges": merges}
    splitters = []
    if cut.digits:
        splitters.append({"type": "Digits", "individual_digits": True})
    if cut.words:
        pattern = {"Regex": "|".join(cut.words)}
        splitters.append({"type": "Split", "pattern": pattern, "behavior": "Isolated", "invert": False})
    as_bytes = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": not cut.words}
    splitters.append(as_bytes)
    steps = {
        "normalizer": {"type": cut.form} if cut.form else None,
        "pre_tokenizer": {"type": "Sequence", "pretokenizers": splitters},
        "decoder": as_bytes,
    }
    return steps, model, cut.bos


def _of_pieces(file: _File, vocabulary: Vocabulary) -> tuple[dict, dict, bool]:
    """(steps, model, whether a token begins each text) of SentencePiece's pieces with their scores."""
    scores = file.list("scores", _is_finite, "finite numbers")
    if len(scores) != len(vocabulary.tokens):
        raise file.refused("scores", f"expected one for each of {len(vocabulary.tokens)} tokens")
    if vocabulary.kinds.count(spiece.UNKNOWN) != 1:
        raise file.refused("token_type", f"expected one {spiece.UNKNOWN}, of the token for what is unknown")
    pieces = []
    for token, score, kind in zip(vocabulary.tokens, scores, vocabulary.kinds, strict=True):
        apart = kind in (spiece.USER_DEFINED, spiece.UNUSED)  # no merge makes them: some are cut out, some never used
        pieces.append(Piece(token, score, spiece.CONTROL if apart else kind))
    has_bytes = set(spiece.BYTES) <= set(vocabulary.tokens)
    trainer = TrainerSpec(spiece.BPE, len(pieces), byte_fallback=has_bytes)
    model = SentencePieceBPE(SentencePieceFile(pieces, trainer, spiece.IDENTITY))
    before = [{"type": "Replace", "pattern": {"String": " "}, "content": SPACE}]
    after = [
        {"type": "Replace", "pattern": {"String": SPACE}, "content": " "},
        {"type": "ByteFallback"},
        {"type": "Fuse"},
    ]
    if file.flag("add_space_prefix", True):
        before.insert(0, {"type": "Prepend", "prepend": SPACE})
        after.append({"type": "Strip", "content": " ", "start": 1, "stop": 0})
    steps = {
        "normalizer": {"type": "Sequence", "normalizers": before},
        "decoder": {"type": "Sequence", "decoders": after},
    }
    return steps, model.to_json(), True

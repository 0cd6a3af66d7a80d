"""The files of SentencePiece (`spiece.model`, `spm.model`, `tokenizer.model`): read and written without its library.

Such a file is one message of Google's *protocol buffers*: a row of fields, each a number, a type and a value; a value
may be a message again. The first lines below read any such message. Which number means what stands in SentencePiece's
`sentencepiece_model.proto`; those of its fields that change ids or texts are named here, the others are passed over.
"""

import math
import re
import struct
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from minigpt.errors import InputError
from minigpt.files import disk

NORMAL, UNKNOWN, CONTROL, USER_DEFINED, UNUSED, BYTE = range(1, 7)  # kinds of pieces
UNIGRAM, BPE, WORD, CHAR = range(1, 5)  # types of models
MODEL_TYPES = {UNIGRAM: "unigram", BPE: "bpe", WORD: "word", CHAR: "char"}
SPACE = "\u2581"  # stands for a space in pieces
SPECIAL = ("<unk>", "<s>", "</s>")  # the first pieces, where nothing else is said
BYTES = tuple(f"<0x{byte:02X}>" for byte in range(256))  # the pieces of byte fallback
REPLACED = "\ufffd"  # stands for what is no character
NO_CHARACTER = re.compile("[\ud800-\udfff]")  # half a surrogate pair, and what Python makes of a byte that is no text

VARINT, EIGHT_BYTES, COUNTED, _, _, FOUR_BYTES = range(6)  # the types of values on the wire

PIECES, TRAINER, NORMALIZER, DENORMALIZER = 1, 2, 3, 5  # the numbers of the fields of a whole file


class Piece(NamedTuple):
    """One piece of the vocabulary. score: its log-probability (Unigram) or minus its rank (BPE)."""

    text: str = ""
    score: float = 0.0
    kind: int = NORMAL

    @property
    def stands_for_text(self) -> bool:
        """Is it a part of texts? A control piece may have the same text."""
        return self.kind in (NORMAL, USER_DEFINED, UNUSED)


class TrainerSpec(NamedTuple):
    """What a file says about its model. An id of -1: there is no such piece."""

    model_type: int = UNIGRAM
    vocab_size: int = 8000
    treat_whitespace_as_suffix: bool = False
    byte_fallback: bool = False
    unk_id: int = 0
    bos_id: int = 1
    eos_id: int = 2
    pad_id: int = -1
    unk_surface: str = " \u2047 "  # what an unknown piece is decoded to
    unk_piece: str = "<unk>"
    bos_piece: str = "<s>"
    eos_piece: str = "</s>"
    pad_piece: str = "<pad>"


class NormalizerSpec(NamedTuple):
    """What a file says about the text before it is cut into pieces. precompiled_charsmap: see `charsmap.py`."""

    name: str = ""
    precompiled_charsmap: bytes = b""
    add_dummy_prefix: bool = True
    remove_extra_whitespaces: bool = True
    escape_whitespaces: bool = True


IDENTITY = NormalizerSpec("identity")  # spaces are put in order, and that is all

_NUMBERS = {  # {message: {field: its number}}
    Piece: {"text": 1, "score": 2, "kind": 3},
    TrainerSpec: {
        "model_type": 3, "vocab_size": 4, "treat_whitespace_as_suffix": 24, "byte_fallback": 35, "unk_id": 40,
        "bos_id": 41, "eos_id": 42, "pad_id": 43, "unk_surface": 44, "unk_piece": 45, "bos_piece": 46, "eos_piece": 47,
        "pad_piece": 48,
    },
    NormalizerSpec: {
        "name": 1, "precompiled_charsmap": 2, "add_dummy_prefix": 3, "remove_extra_whitespaces": 4,
        "escape_whitespaces": 5,
    },
}  # fmt: skip


class SentencePieceFile(NamedTuple):
    """A whole file."""

    pieces: list[Piece]
    trainer: TrainerSpec
    normalizer: NormalizerSpec

    @property
    def model_type(self) -> str:
        """"unigram", "bpe", "word" or "char"."""
        return MODEL_TYPES[self.trainer.model_type]

    def pieces_of_kind(self, kind: int) -> list[str]:
        """The pieces of one kind, in their order."""
        return [piece.text for piece in self.pieces if piece.kind == kind]


def pattern_of(tokens: Sequence[str]) -> re.Pattern | None:
    """What `split` cuts a text at to leave these tokens whole, the longest first; None for no tokens."""
    if not tokens:
        return None
    longest_first = sorted(tokens, key=len, reverse=True)
    return re.compile(f"({'|'.join(map(re.escape, longest_first))})")


def bytes_of(text: str) -> list[str]:
    """The pieces that stand for the bytes of a text; half a surrogate pair is written as U+FFFD."""
    return [BYTES[byte] for byte in NO_CHARACTER.sub(REPLACED, text).encode()]


def fused(ids: list[int], unknown_id: int | None) -> list[int]:
    """The ids, neighbours that are unknown as one."""
    if unknown_id not in ids:
        return ids
    kept = []
    for i in ids:
        if i != unknown_id or kept[-1:] != [unknown_id]:
            kept.append(i)
    return kept


def first_pieces(special: Sequence[str], user_defined: Sequence[str]) -> list[Piece]:
    """The pieces before those that are learnt: for what is unknown, for no text, and those that the user named."""
    pieces = [Piece(special[0], 0.0, UNKNOWN)]
    pieces += [Piece(token, 0.0, CONTROL) for token in special[1:]]
    pieces += [Piece(token, 0.0, USER_DEFINED) for token in user_defined]
    return pieces


class _Damaged(ValueError):
    """What was read is no message."""


# --------------------------------------------------------------------------------------------------- the wire format


def fields_of(message: bytes) -> Iterator[tuple[int, int | bytes]]:
    """(number, value) for every field of a message: values are whole numbers, or bytes of one of the other types."""
    place = 0
    while place < len(message):
        tag, place = _varint(message, place)
        number, wire_type = tag >> 3, tag & 7
        if wire_type == VARINT:
            value, place = _varint(message, place)
        else:
            if wire_type == COUNTED:
                size, place = _varint(message, place)
            elif wire_type in (FOUR_BYTES, EIGHT_BYTES):
                size = 4 if wire_type == FOUR_BYTES else 8
            else:
                raise _Damaged(f"a field of the type {wire_type}, which is not used any more")
            value = message[place : place + size]
            place += size
            if place > len(message):
                raise _Damaged("it ends in the middle of a field")
        if number == 0:
            raise _Damaged("a field has the number 0")
        yield number, value


def _varint(message: bytes, place: int) -> tuple[int, int]:
    """A whole number and the place after it: seven bits a byte, the lowest first; a byte below 128 is the last one."""
    value = 0
    for shift in range(0, 70, 7):
        if place >= len(message):
            raise _Damaged("it ends in the middle of a field")
        byte = message[place]
        place += 1
        value |= (byte & 127) << shift
        if byte < 128:
            return value, place
    raise _Damaged("a whole number has more than 64 bits")


def _written_varint(value: int) -> bytes:
    value &= (1 << 64) - 1  # a number below zero is written as its two's complement
    written = bytearray()
    while value >= 128:
        written.append(value & 127 | 128)
        value >>= 7
    written.append(value)
    return bytes(written)


def _written_field(number: int, value: Any) -> bytes:
    """One field: its tag, and a value of Python as the type that SentencePiece gives it."""
    if isinstance(value, float):
        return _written_varint(number << 3 | FOUR_BYTES) + struct.pack("<f", value)
    if isinstance(value, int):
        return _written_varint(number << 3 | VARINT) + _written_varint(value)
    content = value.encode() if isinstance(value, str) else value
    return _written_varint(number << 3 | COUNTED) + _written_varint(len(content)) + content


# ---------------------------------------------------------------------------------------------------- fields by name


def _read_message(kind: Any, message: bytes) -> Any:
    """A message as the class that names its fields; what it leaves out has the default."""
    names = {number: name for name, number in _NUMBERS[kind].items()}
    given = {}
    for number, value in fields_of(message):
        if number in names:
            name = names[number]
            given[name] = _as_type(type(kind._field_defaults[name]), value, name)
    return kind(**given)


def _as_type(expected: type, value: Any, name: str) -> Any:
    """A value of the wire as a bool, int, float, str or bytes."""
    if isinstance(value, int) != issubclass(expected, int):
        raise _Damaged(f"its field {name} is of another type")
    if expected is float:
        if len(value) != 4:
            raise _Damaged(f"its field {name} is of another type")
        return struct.unpack("<f", value)[0]
    if expected is str:
        return value.decode()
    if expected is int and value >= 1 << 63:
        return value - (1 << 64)
    return expected(value)


def _written_message(content: Any) -> bytes:
    numbers = _NUMBERS[type(content)]
    return b"".join(_written_field(number, getattr(content, name)) for name, number in numbers.items())


def read(path: str | Path) -> SentencePieceFile:
    """The content of a file of SentencePiece.

    Raises InputError where it cannot be read, is cut off or no such file, and for a piece that is empty or there twice.
    """
    path = Path(path)
    try:
        content = path.read_bytes()
    except OSError as error:
        raise InputError(f"{path} cannot be read ({disk.reason(error)}): give a file of SentencePiece") from error
    try:
        return parse(content)
    except InputError as error:
        raise InputError(f"{path}: {error}") from error
    except ValueError as error:
        why = "a text in it is not UTF-8" if isinstance(error, UnicodeDecodeError) else error
        raise InputError(f"{path} is no whole file of SentencePiece ({why}): it is damaged or cut off") from error


def parse(content: bytes) -> SentencePieceFile:
    """The content of a file, given as bytes. Raises ValueError where they are none, InputError for what is not built.
    """
    pieces = []
    specs: dict[int, Any] = {TRAINER: None, NORMALIZER: None, DENORMALIZER: None}
    for number, value in fields_of(content):
        if isinstance(value, int):
            raise _Damaged("a field of it is a number where a message is expected")
        if number == PIECES:
            pieces.append(_read_message(Piece, value))
        elif number in specs:
            specs[number] = value
    for name, number in (("trainer_spec", TRAINER), ("normalizer_spec", NORMALIZER)):
        if specs[number] is None:
            raise _Damaged(f"it has {len(pieces)} pieces and no {name}")
    trainer = _read_message(TrainerSpec, specs[TRAINER])
    normalizer = _read_message(NormalizerSpec, specs[NORMALIZER])
    if specs[DENORMALIZER] and _read_message(NormalizerSpec, specs[DENORMALIZER]).precompiled_charsmap:
        raise InputError("its denormalizer_spec changes texts after they are decoded, which is not built here")
    check_pieces(pieces, trainer)
    return SentencePieceFile(pieces, trainer, normalizer)


def check_pieces(pieces: list[Piece], trainer: TrainerSpec) -> None:
    """Raise ValueError for pieces that no model can have, as SentencePiece itself does."""
    if trainer.model_type not in MODEL_TYPES:
        raise _Damaged(f"its model_type is {trainer.model_type}, known are 1 to {len(MODEL_TYPES)}")
    found = set()
    for i, piece in enumerate(pieces):
        if not piece.text:
            raise _Damaged(f"piece {i} is empty")
        if not NORMAL <= piece.kind <= BYTE:
            raise _Damaged(f"piece {i} is of the kind {piece.kind}")
        if not math.isfinite(piece.score):
            raise _Damaged(f"piece {i} has the score {piece.score}")
        if (piece.text, piece.stands_for_text) in found:
            raise _Damaged(f"the piece {piece.text[:60]!r} is there twice")
        found.add((piece.text, piece.stands_for_text))
    n_unknown = sum(piece.kind == UNKNOWN for piece in pieces)
    if n_unknown != 1:
        raise _Damaged(f"{n_unknown} of its {len(pieces)} pieces stand for what is unknown, expected one")
    n_bytes = sum(piece.kind == BYTE for piece in pieces)
    if n_bytes != (256 if trainer.byte_fallback else 0):
        raise _Damaged(f"{n_bytes} pieces stand for bytes, and its byte_fallback is {trainer.byte_fallback}")


def dump(content: SentencePieceFile) -> bytes:
    """The bytes of a file with this content, which `parse` and SentencePiece itself read."""
    written = [_written_field(PIECES, _written_message(piece)) for piece in content.pieces]
    written.append(_written_field(TRAINER, _written_message(content.trainer)))
    written.append(_written_field(NORMALIZER, _written_message(content.normalizer)))
    return b"".join(written)


def write(path: str | Path, content: SentencePieceFile) -> None:
    """Write a file that `read` and SentencePiece itself read. Raises InputError where it cannot be written."""
    disk.write_bytes(path, dump(content))

"""The vocabulary files of Karpathy's llama2.c (`tokenizer.bin`, `tok512.bin`), read as files of SentencePiece.

A file is one number, the length of the longest piece in bytes, and then for each piece its score, its length and its
bytes. A space stands for SentencePiece's `▁`, and the tokens 1 and 2 have line ends around them. The first piece is for
what is unknown, 256 stand for bytes, and the others are merged as SentencePiece's BPE does.
"""

import re
import struct
from pathlib import Path

from minigpt.errors import InputError
from minigpt.files import disk
from minigpt.tokenizer import spiece
from minigpt.tokenizer.spiece import SPACE, NormalizerSpec, Piece, SentencePieceFile, TrainerSpec

_BYTE = re.compile("<0x[0-9A-F]{2}>")


def read(path: str | Path) -> SentencePieceFile:
    """The content of a file, whose text is normalised as llama2.c does it: a space is put in front, and all stay.

    Raises InputError where it cannot be read, is cut off or no such file.
    """
    path = Path(path)
    try:
        content = path.read_bytes()
    except OSError as error:
        what = "give a vocabulary file of llama2.c"
        raise InputError(f"{path} cannot be read ({disk.reason(error)}): {what}") from error
    try:
        return _parsed(content)
    except (ValueError, struct.error) as error:
        what = f"{path} is no whole vocabulary file of llama2.c ({error})"
        raise InputError(f"{what}: take it from its source again") from error


def _parsed(content: bytes) -> SentencePieceFile:
    """The content of a file. Raises ValueError or struct.error where it is none."""
    (longest,) = struct.unpack_from("<i", content)
    pieces = []
    place = 4
    while place < len(content):
        score, length = struct.unpack_from("<fi", content, place)
        place += 8
        text = content[place : place + length]
        if not 0 < length <= longest or len(text) < length:
            raise ValueError(f"piece {len(pieces)} has {length} bytes, the longest has {longest}, {len(text)} are left")
        place += length
        pieces.append(_piece(len(pieces), text.decode(), score))
    if tuple(piece.text for piece in pieces[:3]) != spiece.SPECIAL:
        raise ValueError(f"its first pieces are not {', '.join(spiece.SPECIAL)}")
    trainer = TrainerSpec(spiece.BPE, len(pieces), byte_fallback=True)
    spiece.check_pieces(pieces, trainer)
    return SentencePieceFile(pieces, trainer, NormalizerSpec("identity", remove_extra_whitespaces=False))


def _piece(i: int, text: str, score: float) -> Piece:
    if i == 0:
        return Piece(text, score, spiece.UNKNOWN)
    if i < len(spiece.SPECIAL):
        return Piece(text.strip("\n"), score, spiece.CONTROL)
    if _BYTE.fullmatch(text):
        return Piece(text, score, spiece.BYTE)
    return Piece(text.replace(" ", SPACE), score)

"""Character by character: what the library `tokenizers` takes for a control character, an accent, a mark, a space.

Its tables are older than Python's and differ from them, so they stand in `characters.toml`.
"""

import unicodedata
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Literal

import regex

from minigpt.files.disk import read_toml
from minigpt.tokenizer.pipeline import WHITE

NormalForm = Literal["NFC", "NFD", "NFKC", "NFKD"]

IDEOGRAPHS = "4E00-9FFF 3400-4DBF 20000-2A6DF 2A700-2B73F 2B740-2B81F 2B820-2CEAF F900-FAFF 2F800-2FA1F"


class Characters(dict[int, str]):
    """A table for `str.translate`, filled as characters are met: `text.translate(Characters(function))`.

    function: what a character becomes.
    """

    def __init__(self, function: Callable[[str], str]):
        super().__init__()
        self._function = function

    def __missing__(self, code: int) -> str:
        becomes = self._function(chr(code))
        self[code] = becomes
        return becomes


@cache
def table(name: str) -> frozenset[int]:
    """The code points of one list of `characters.toml`."""
    return codes_in(_tables()[name])


@cache
def _tables() -> dict:
    return read_toml(Path(__file__).with_name("characters.toml"))


def codes_in(written: str) -> frozenset[int]:
    """The code points of ranges such as `41-5A 61`."""
    codes = set()
    for written_range in written.split():
        first, _, last = written_range.partition("-")
        codes.update(range(int(first, 16), int(last or first, 16) + 1))
    return frozenset(codes)


IDEOGRAPH_CODES = codes_in(IDEOGRAPHS)


def is_control(character: str) -> bool:
    """Is it dropped by BERT? Tab, line feed and carriage return are white space."""
    return ord(character) in table("control")


def is_punctuation(character: str) -> bool:
    """Is it a word of its own? ASCII symbols such as `$` and `^` are, too."""
    return ord(character) in table("punctuation")


def is_ideograph(character: str) -> bool:
    """Is it a Chinese character, as used in Japanese and Korean too? Hangul and kana are none."""
    return ord(character) in IDEOGRAPH_CODES


def without_control(character: str) -> str:
    """Nothing for a control character, a space for white space."""
    if is_control(character):
        return ""
    return " " if character in WHITE else character


def with_spaces(character: str) -> str:
    """A Chinese character between two spaces."""
    return f" {character} " if is_ideograph(character) else character


def without_nonspacing(character: str) -> str:
    """Nothing for an accent that takes no room."""
    return "" if ord(character) in table("nonspacing") else character


def without_mark(character: str) -> str:
    """Nothing for any mark that belongs to the character before it."""
    return "" if ord(character) in table("mark") else character


def small(character: str) -> str:
    """The small letter, wherever the character stands: the library knows no sigma for the end of a word."""
    return _small_letters().get(character) or character.lower()


@cache
def _small_letters() -> dict[str, str]:
    """{capital letter: small letter}, of those that not every version of Python knows."""
    small_letters = {}
    for written, first in _tables()["small_letter"].items():
        for i, code in enumerate(sorted(codes_in(written))):
            small_letters[chr(code)] = chr(first + i)
    return small_letters


@cache
def _decomposed() -> regex.Pattern:
    """Stretches of text between the characters that stay as they are."""
    kept = "".join(map(chr, sorted(table("not_decomposed"))))
    return regex.compile(f"[^{kept}]+")


def normal_form(form: NormalForm, text: str) -> str:
    """A text in a normal form of Unicode: "NFC", "NFD", "NFKC" or "NFKD"."""
    if text.isascii():
        return text
    return _decomposed().sub(lambda found: unicodedata.normalize(form, found.group()), text)

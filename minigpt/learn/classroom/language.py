"""What the classroom says, in the reader's language: MINIGPT_LANG=ko is Korean, everything else English.

    tr("{n} of {total} exercises are right", n=3, total=5)

The English text stands where it is said. `words/ko.toml` has the Korean text for each, with the same names in braces: a
test compares both. Sentences that come from elsewhere, such as a diagnosis, are told in Korean by `sentences.told`.
"""

import functools
import os
import re
import unicodedata
from pathlib import Path
from typing import Any

from minigpt.files.disk import read_toml

VARIABLE = "MINIGPT_LANG"
LANGUAGES = ("en", "ko")


def language() -> str:
    """ "en" or "ko", as the environment says; "ko_KR.UTF-8" is Korean too."""
    wanted = re.split("[_.@-]", os.environ.get(VARIABLE, "en").strip().lower())[0]
    return wanted if wanted in LANGUAGES else "en"


def tr(text: str, /, **values: Any) -> str:
    """The text in the reader's language, with the values in the place of the names in braces."""
    return words(language())["texts"].get(text, text).format(**values)


@functools.cache
def words(code: str) -> dict[str, dict[str, str]]:
    """The tables of a language: "texts", "patterns" and "python", each {English: in this language}.

    All are empty for English itself.
    """
    if code == "en":
        return {"texts": {}, "patterns": {}, "python": {}}
    return read_words(f"{code}.toml")


def read_words(name: str) -> dict[str, Any]:
    """The tables of a file in the folder `words`."""
    return read_toml(Path(__file__).parent / "words" / name)


# --- Hangul takes two columns of a terminal --------------------------------------------------------------------------


def width_of(text: str) -> int:
    """How many columns of a terminal the text takes."""
    return sum(2 if unicodedata.east_asian_width(letter) in "WF" else 1 for letter in text)


def padded(text: str, columns: int) -> str:
    """The text with spaces behind it, up to this number of columns."""
    return text + " " * (columns - width_of(text))


def wrapped(text: str, columns: int, indent: str = "") -> str:
    """The words of the text in lines that are not wider than this, unless a single word is; each behind an indent."""
    lines = [indent]
    for word in text.split():
        if lines[-1] != indent and width_of(lines[-1]) + 1 + width_of(word) > columns:
            lines.append(indent)
        lines[-1] += word if lines[-1] == indent else f" {word}"
    return "\n".join(lines)

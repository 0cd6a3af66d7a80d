"""What the classroom says, in the reader's language: MINIGPT_LANG=ko is Korean, everything else English.

    tr("{n} of {total} exercises are right", n=3, total=5)

The English text stands where it is said. `words/ko.toml` has the Korean text for each, with the same names in braces: a
test compares both.
"""

import functools
import os
import tomllib
from importlib import resources
from typing import Any

VARIABLE = "MINIGPT_LANG"
LANGUAGES = ("en", "ko")


def language() -> str:
    """ "en" or "ko", as the environment says; "ko_KR.UTF-8" is Korean too."""
    wanted = os.environ.get(VARIABLE, "en")[:2].lower()
    return wanted if wanted in LANGUAGES else "en"


def tr(text: str, /, **values: Any) -> str:
    """The text in the reader's language, with the values in the place of the names in braces."""
    return words(language()).get(text, text).format(**values)


@functools.cache
def words(code: str) -> dict[str, str]:
    """{English text: the text in this language}; empty for English itself."""
    if code == "en":
        return {}
    table = resources.files("minigpt.learn.classroom") / "words" / f"{code}.toml"
    return tomllib.loads(table.read_text(encoding="utf-8"))["texts"]

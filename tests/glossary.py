"""The glossary of lessons/README.md: its rows, and the lesson that uses a term first."""

import re
from functools import lru_cache
from pathlib import Path

from minigpt.learn.cells import cells

ROOT = Path(__file__).parent.parent
LESSONS = sorted((ROOT / "lessons").glob("[0-9][0-9]_*.py"))


def rows() -> list[tuple[str, str, str, str]]:
    """(English, Korean, number of a lesson, explanation) of each row."""
    text = (ROOT / "lessons" / "README.md").read_text(encoding="utf-8")
    table = text[text.index("## Terms") :]
    found = re.findall(r"^\| (.+?) \| (.+?) \| (\d\d) \| (.+) \|$", table, re.MULTILINE)
    return [tuple(cell.strip() for cell in row) for row in found]


@lru_cache
def words_of(path: Path) -> str:
    """The prose of a lesson in small letters, without the signs of emphasis."""
    prose = " ".join(cell.prose for cell in cells(path) if not cell.is_code)
    return " ".join(re.sub(r"[*`]", "", prose.lower()).split())


def variants(term: str) -> list[str]:
    """The words by which a term is known: "query, key, value" is three, and a bracket holds one more."""
    inside = re.findall(r"\((?:of .*?\)|(.*?)\))", term)
    outside = re.sub(r"\(.*?\)", "", term)
    parts = re.split(r"[,:]", outside) + [word for word in inside if word]
    return [part.strip(" `").lower() for part in parts if part.strip(" `")]


def first_lesson(term: str) -> str | None:
    """The number of the first lesson whose prose has one of the words of a term; None where there is none."""
    for path in LESSONS:
        for word in variants(term):
            if re.search(rf"\b{re.escape(word)}(?:s|es)?(?!\w)", words_of(path)):
                return path.name[:2]
    return None

"""`minigpt learn words [TERM]`: the terms of the lessons in English and Korean, each in one sentence.

The table stands in lessons/README.md; `words/glossary_ko.toml` has a Korean sentence for each of its terms.
"""

import difflib
import re
from dataclasses import dataclass
from typing import NamedTuple

from minigpt.errors import InputError
from minigpt.jobs.option_fields import argument
from minigpt.learn.classroom.language import language, padded, read_words, tr, width_of, wrapped
from minigpt.learn.lessons import find_lessons

README = "lessons/README.md"
HEADING = "## Terms"
ROW = re.compile(r"^\| (.+?) \| (.+?) \| (\d\d) \| (.+) \|$", re.MULTILINE)
KOREAN = "glossary_ko.toml"
COLUMNS = 100
ALIKE = 0.6  # from 0 to 1: as similar must a term be that was perhaps meant


@dataclass(kw_only=True)
class WordsOptions:
    """What `minigpt learn words` can be told."""

    term: str | None = argument("a part of a word, in either language (default: all)", default=None, metavar="TERM")


class Term(NamedTuple):
    """A term of the glossary: in English, in Korean, the first lesson that uses it, and what it means."""

    english: str
    korean: str
    lesson: str
    sentence: str

    @property
    def names(self) -> list[str]:
        """The words by which it is known: "query, key, value" is three, and a bracket holds one more."""
        both = f"{self.english},{self.korean}".replace("`", "")
        return [name.strip().lower() for name in re.split(r"[,:()·]", both) if name.strip()]

    def has(self, part: str) -> bool:
        """Does this part of a word stand in it, in either language?"""
        return part.lower() in f"{self.english}\n{self.korean}".replace("`", "").lower()


def words(options: WordsOptions) -> list[Term]:
    """Print all terms, or those with a part of a word; returns them. Raises InputError where there are none."""
    known = terms()
    found = [term for term in known if options.term is None or term.has(options.term.strip())]
    if not found:
        raise InputError(_nothing_found(options.term, known))
    print(_table(found))
    return found


def terms() -> list[Term]:
    """The glossary of lessons/README.md, in its order, with the sentences in the reader's language.

    Raises InputError where this installation has no lessons.
    """
    text = find_lessons()[README].read_text(encoding="utf-8")
    found = [Term(*row) for row in ROW.findall(text[text.index(HEADING) :])]
    if language() == "ko":
        sentences = read_words(KOREAN)["sentences"]
        found = [term._replace(sentence=sentences.get(term.english, term.sentence)) for term in found]
    return found


def _nothing_found(wanted: str, known: list[Term]) -> str:
    names = [name for term in known for name in term.names]
    near = difflib.get_close_matches(wanted.strip().lower(), names, n=1, cutoff=ALIKE)
    if near:
        return tr("{term} is not in the glossary; did you mean {near}?", term=wanted, near=near[0])
    return tr("{term} is not in the glossary: `minigpt learn words` shows all terms", term=wanted)


def _table(found: list[Term]) -> str:
    """For each term a line with both languages and its lesson, and below it the sentence."""
    english = max(width_of(term.english) for term in found)
    korean = max(width_of(term.korean) for term in found)
    lines = []
    for term in found:
        names = f"{padded(term.english, english)}   {padded(term.korean, korean)}"
        lines.append(f"{names}   {tr('lesson {n}', n=term.lesson)}")
        lines.append(wrapped(term.sentence, COLUMNS, indent="    "))
    return "\n".join(lines)

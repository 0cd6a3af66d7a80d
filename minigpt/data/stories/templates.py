"""Patterns read backwards: where in a text does one stand, and whom can its words mean?"""

from collections import defaultdict
from collections.abc import Iterator
from functools import cache, lru_cache
from typing import NamedTuple

from minigpt.data.stories.seen import entities, signatures
from minigpt.data.stories.teller import PATTERNS, VERBS_OF_SPEECH, Parts, Slot
from minigpt.data.stories.words import Entity

LONGEST = 5  # words in a slot: said the little white dog
FREE = "free"  # a slot in which the teller chooses the form
FREE_FORMS = ("", "sub", *VERBS_OF_SPEECH)
SHAPES = ("the", "a", "short", "he", "him")  # that it chooses from


class Template(NamedTuple):
    """A form of a pattern: what it tells, its parts, and whether a second verb can follow."""

    name: str  # of the list of patterns: `kind`, or `kind.how`
    parts: Parts
    goes_on: bool

    @property
    def slots(self) -> list[Slot]:
        return [part for part in self.parts if isinstance(part, Slot)]

    @property
    def begun(self) -> "Template":
        """The same without its period, for a second verb to follow."""
        *parts, last = self.parts
        return self._replace(parts=(*parts, last.removesuffix(".")))


class Match(NamedTuple):
    """Where a template was found in a text: its end, and the words in its slots, in small letters."""

    end: int
    words: tuple[str, ...]


@cache
def templates() -> tuple[list[Template], list[Template]]:
    """All forms of all patterns that stories use: what begins a sentence, and what can be its second verb."""
    firsts = []
    seconds = []
    for name, patterns in PATTERNS.items():
        if name not in signatures():
            continue
        for form in [form for pattern in patterns for form in pattern]:
            firsts.append(Template(name, form.parts, form.goes_on))
            if form.is_second:
                seconds.append(Template(name, (" and", *form.parts[1:]), goes_on=False))
    return firsts, seconds


def matches(parts: Parts, small: str, at: int, words_so_far: tuple[str, ...] = ()) -> Iterator[Match]:
    """Every way in which the parts can stand in a text of small letters, from this place on."""
    if not parts:
        yield Match(at, words_so_far)
        return
    part, *rest = parts
    if isinstance(part, str):
        if small.startswith(part.lower(), at):
            yield from matches(rest, small, at + len(part), words_so_far)
        return
    for word in _words_at(small, at):
        if part.role == "how" or meant_by(word, part.form):
            yield from matches(rest, small, at + len(word), (*words_so_far, word))


@lru_cache(maxsize=1000)
def _words_at(small: str, at: int) -> tuple[str, ...]:
    """The first word from here on, the first two, and so on. Hundreds of templates are tried at each place."""
    words_found = []
    end = at
    for _ in range(LONGEST):
        while end < len(small) and (small[end].isalpha() or small[end] == "'"):
            end += 1
        words_found.append(small[at:end])
        if not small.startswith(" ", end):
            break
        end += 1
    return tuple(words_found)


@cache
def meant_by(word: str, form: str) -> tuple[Entity, ...]:
    """The entities for which a word can stand in a slot of this form."""
    if form in VERBS_OF_SPEECH:
        if not word.startswith(f"{form} ") and not word.endswith(f" {form}"):
            return ()
        word = word.removeprefix(f"{form} ").removesuffix(f" {form}")
    return _by_form().get((word, FREE if form in FREE_FORMS else form), ())


@cache
def _by_form() -> dict[tuple[str, str], tuple[Entity, ...]]:
    """{(word in small letters, form): the entities that it can mean}; FREE is any form that a free slot can take."""
    found: dict[tuple[str, str], tuple[Entity, ...]] = defaultdict(tuple)
    for one in entities():
        for form, word in one.forms.items():
            found[word.lower(), form] += (one,)
        for word in {one.forms[form].lower() for form in SHAPES if form in one.forms}:
            found[word, FREE] += (one,)
    return dict(found)

"""The same stories in Korean: each sentence is told again from its events, by the line beside the English one.

What is said is content (`korean_patterns.toml`, `korean_words.toml`); here are the three things that a table cannot
hold: which choices and names the English sentence has, what replaces a pronoun, and which form a particle takes.
"""

import re
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

from minigpt.data.stories.teller import Sentence, Told, tidy
from minigpt.data.stories.words import CHILDREN, Entity
from minigpt.files.disk import read_toml

SEPARATOR = " = "  # between a sentence and its translation; the sign occurs in neither

_FOLDER = Path(__file__).parent
WORDS = read_toml(_FOLDER / "korean_words.toml")
PATTERNS = {key: text.splitlines() for key, text in read_toml(_FOLDER / "korean_patterns.toml").items()}

CHOICE = re.compile(r"\[(?:(\d+|polite):)?(.*?)\]")
SLOT = re.compile(r"\{(\w+)(?:\.(\w+))?(?::(\w+))?\}")
LEFT_OUT = ("은", "이")  # the particles of a subject that can be left out
OF_SUBJECTS = (*LEFT_OUT, "도", "이었어요", "이었고")  # behind whom a sentence is about
OTHERS = re.compile("둘은|둘 다|모두 |누군가|목소리[가도]")  # whom else a part can be about: both, all, a voice
PART = re.compile('(?<=[.!?"]) ')  # between two sentences, and behind speech
JOINED = {"갔어요.": "가서 ", "왔어요.": "와서 ", "어요.": "고 "}  # the end of a first verb before a second one
THINGS = ("thing", "box", "food")
SYLLABLES, FINALS = 0xAC00, 28  # the first syllable of Unicode; how many there are with the same beginning
RIEUL = 8  # the number of ㄹ among the final consonants; 0: none


class Line(NamedTuple):
    """A sentence in Korean. stands_alone: it names only those whom the English sentence names, not only means."""

    text: str
    stands_alone: bool


def with_particle(word: str, particle: str) -> str:
    """The word with a particle in the form that its last sound asks for: 공을, 모자를, 달걀로."""
    after_consonant, after_vowel = WORDS["particles"][particle]
    final = (ord(word[-1]) - SYLLABLES) % FINALS
    if final == 0 or (final == RIEUL and particle == "으로"):
        return word + after_vowel
    return word + after_consonant


def noun(entity: Entity) -> str:
    """The Korean noun of an entity, without its look; of a spot with the word that says where: 벤치 아래."""
    if entity.kind == "spot":
        return WORDS["spots"][f"{entity.preposition} {entity.name}"]
    table = {"person": "people", "animal": "animals", "place": "places"}.get(entity.kind, "things")
    return WORDS[table][entity.name]


def phrase(entity: Entity) -> str:
    """The noun of an entity with its look before it: 빨간 공."""
    if not entity.look:
        return noun(entity)
    looks = WORDS["looks"]
    look = looks.get(f"{entity.look} {entity.name}") or looks[entity.look]
    return f"{look} {noun(entity)}"


def lines(sentences: Iterable[Sentence]) -> list[Line]:
    """The sentences of a story, one Korean line for each."""
    teller = _Teller()
    return [teller.line(sentence) for sentence in sentences]


def pairs(sentences: Iterable[Sentence]) -> list[str]:
    """`English sentence = Korean sentence` for those sentences whose Korean can be known from the English alone."""
    sentences = list(sentences)
    found = []
    for sentence, line in zip(sentences, lines(sentences), strict=True):
        if line.stands_alone:
            found.append(f"{sentence.text}{SEPARATOR}{line.text}")
    return found


class _Teller:
    """Tells the sentences of one story, one after the other.

    Its patterns name the entities of an event as the English does. Where that has a pronoun, a subject that was the
    last one is left out if no other is near, a thing is called 그것, and any other name is said again.
    """

    def __init__(self):
        self.subject: Entity | None = None  # whom the last sentence is about
        self.has_topic = False  # does 은 stand in this part of a sentence? It is about that one, then
        self.named: set[Entity] = set()  # whom the English sentence names
        self.stands_alone = True

    def line(self, sentence: Sentence) -> Line:
        """The next sentence; its second verb, if there is one, is joined to the first."""
        self.named = {getattr(told.event, role) for told in sentence.told for role in told.names}
        self.stands_alone = True
        first, *seconds = sentence.told
        text = self._clause(first)
        for second in seconds:
            ending = next(ending for ending in JOINED if text.endswith(ending))
            text = text.removesuffix(ending) + JOINED[ending] + self._clause(second)
        return Line(text, self.stands_alone)

    def _clause(self, told: Told) -> str:
        """The text that tells one event."""
        text = ""
        for part in PART.split(_chosen(PATTERNS[told.place.key][told.place.line], told)):
            is_quoted = text.count('"') % 2 == 1
            text += self._part(told, part, is_quoted) + " "
        text = tidy(text)
        return text if text[-1] in '.!?"' else text + "."

    def _part(self, told: Told, part: str, is_quoted: bool) -> str:
        """A sentence of a pattern, or what stands before or behind speech, with its slots filled."""
        text = ""
        end = 0
        subjects = {role for role, _, particle in SLOT.findall(part) if particle in LEFT_OUT}
        people = [role for role in subjects if getattr(told.event, role).kind not in THINGS]
        self.has_topic = False
        for slot in SLOT.finditer(part):
            text += part[end : slot.start()]
            end = slot.end()
            role, form, particle = slot.groups(default="")
            is_outside = text.count('"') % 2 == is_quoted
            can_be_left_out = particle in LEFT_OUT and is_outside and len(people) < 2
            word = self._word(told, role, form, can_be_left_out)
            if particle in OF_SUBJECTS and is_outside:
                self._note(getattr(told.event, role), particle)
            text += with_particle(word, particle) if word and particle else word
        if OTHERS.search(part):
            self.subject = None
        return text + part[end:]

    def _word(self, told: Told, role: str, form: str, can_be_left_out: bool) -> str:
        """What stands in a slot, before its particle: "" where a subject is left out."""
        if role == "how":
            return WORDS["hows"][told.event.how]
        entity = getattr(told.event, role)
        if form == "girl":
            return WORDS["girl"][entity.gender]
        if form == "in":
            return noun(entity.place)
        if not form and role not in told.names:
            if can_be_left_out and entity is self.subject:
                return ""
            if entity.kind in THINGS:
                return "그것"
        self.stands_alone &= entity in self.named
        is_short = form == "name" or told.names.get(role, "name") in ("name", "short")
        if form == "name" and entity.kind == "spot":
            return noun(entity).rpartition(" ")[0]
        return noun(entity) if is_short else phrase(entity)

    def _note(self, entity: Entity, particle: str) -> None:
        """Note whom a sentence is about: who stands before 은, or else the last subject."""
        if particle == "은" or not self.has_topic:
            self.subject = entity
        self.has_topic |= particle == "은"


def _chosen(pattern: str, told: Told) -> str:
    """The pattern with the choices that the English sentence makes, and the politeness of this speaker."""
    listener = told.event.to
    is_grown_up = listener is not None and listener.kind == "person" and listener not in CHILDREN
    is_polite = told.event.who in CHILDREN and is_grown_up
    count = 0

    def option(found: re.Match) -> str:
        nonlocal count
        name, options = found.groups()
        count += name != "polite"
        if name == "polite":
            number = int(is_polite)
        else:
            number = told.place.chosen[int(name or count) - 1]
        return options.split("|")[number]

    return CHOICE.sub(option, pattern)

"""The teller lets events happen in a world and says each in a sentence that fits what was said before."""

import random
import re
from collections.abc import Iterable, Sequence
from itertools import product
from pathlib import Path
from typing import NamedTuple

from minigpt.data.stories import words
from minigpt.data.stories.words import Entity
from minigpt.data.stories.world import Event, World, look_up
from minigpt.files.disk import read_toml

VERBS_OF_SPEECH = ("said", "asked", "cried")


Pronouns = tuple[tuple[int, str, Entity], ...]  # (offset in the text, word, entity)


class Place(NamedTuple):
    """Where a form stands in `patterns.toml`: the key, the line from 0, and which of each choice it takes, from 0."""

    key: str
    line: int
    chosen: tuple[int, ...]


class Told(NamedTuple):
    """How an event was told: the place of its pattern, and {role: form that comes first} of those whom it names."""

    event: Event
    place: Place
    names: dict[str, str]


class Sentence(NamedTuple):
    """One sentence (a line of speech may be two), what it tells, whom its pronouns mean, and how each event is told."""

    text: str
    events: tuple[Event, ...]
    pronouns: Pronouns
    told: tuple[Told, ...]


class Slot(NamedTuple):
    """A place in a pattern for the words of one role of the event: `{who.his}` is Slot("who", "his")."""

    role: str
    form: str  # a form of the entity, a verb of speech, or "" for whatever fits


Parts = tuple[str | Slot, ...]


class Form(NamedTuple):
    """A pattern in which every choice has been made, cut into texts and slots."""

    parts: Parts
    goes_on: bool  # can a second verb follow? "Tom went home" + "and slept"
    is_second: bool  # can this be that second verb, without its subject?
    place: Place


Pattern = tuple[Form, ...]  # one form for every way to make its choices


def _read_patterns(path: Path) -> dict[str, list[Pattern]]:
    """{kind of event: its patterns}"""
    patterns = {}
    for kind, text in read_toml(path).items():
        patterns[kind] = []
        for number, line in enumerate(text.splitlines()):
            forms = []
            for pattern, chosen in _expand(line):
                forms.append(_form(pattern, Place(kind, number, chosen)))
            patterns[kind].append(tuple(forms))
    return patterns


def _expand(pattern: str) -> list[tuple[str, tuple[int, ...]]]:
    """Every way to choose in `[one|other]`: "a [b|] c" -> [("a b c", (0,)), ("a c", (1,))]."""
    texts_and_choices = re.split(r"\[(.*?)\]", pattern)
    choices = [part.split("|") for part in texts_and_choices[1::2]]
    expanded = []
    for chosen in product(*(range(len(choice)) for choice in choices)):
        parts = list(texts_and_choices)
        parts[1::2] = [choice[number] for choice, number in zip(choices, chosen, strict=True)]
        expanded.append((tidy("".join(parts)), chosen))
    return expanded


def tidy(text: str) -> str:
    """The text without the spaces that are left beside an empty choice."""
    return re.sub(" +(?=[ ,.?!]|$)", "", text).lstrip()


def _form(pattern: str, place: Place) -> Form:
    """Cut a pattern into its parts: "Then {who} sat" -> ("Then ", Slot("who", ""), " sat.")."""
    sentence = pattern if pattern[-1] in '!?"' else pattern + "."
    parts = []
    for i, part in enumerate(re.split(r"\{(.*?)\}", sentence)):
        is_slot = i % 2 == 1
        if is_slot:
            role, _, form = part.partition(".")
            parts.append(Slot(role, form))
        elif part:
            parts.append(part)
    has_one_verb = not re.search('["!?,]| and ', pattern)
    goes_on = has_one_verb and "{who}" in pattern
    is_second = has_one_verb and pattern.startswith("{who} ")
    return Form(tuple(parts), goes_on, is_second, place)


PATTERNS = _read_patterns(Path(__file__).with_name("patterns.toml"))


def capital(text: str) -> str:
    """The text with a capital at its beginning, or after an opening quotation mark."""
    start = 1 if text[0] == '"' else 0
    return text[:start] + text[start].upper() + text[start + 1 :]


def capitals_within(text: str) -> str:
    """The text with a capital after each . ! or ? that ends a sentence."""
    return re.sub("(?<=[.!?] )[a-z]", lambda letter: letter[0].upper(), text)


class Chance:
    """Choices drawn from `random()` of Python's Mersenne Twister: the same on every platform and version."""

    def __init__(self, seed: str):
        self.random = random.Random(seed).random

    def pick(self, options: Sequence):
        """One of the options."""
        return options[int(self.random() * len(options))]

    def chance(self, probability: float) -> bool:
        """True, with this probability."""
        return self.random() < probability

    def mixed(self, options: Iterable) -> list:
        """The options in any order."""
        return sorted(options, key=lambda option: self.random())


class Teller(Chance):
    """Tells events: each changes the world, and becomes a sentence or the second half of one.

    A pronoun is used only where it can mean one entity: it was named in this sentence or the one before, and no other
    of the same gender was. Patterns that do otherwise ("Tom thanked Ben, because he had helped him") are deliberate.

    variety: how many pairs of friends there are, and looks of a thing; each event can be told in one way more. None:
    all of them.
    """

    def __init__(self, seed: str, variety: int | None):
        super().__init__(seed)
        self.variety = variety
        self.clear()

    def clear(self) -> None:
        """Begin anew, in a world of which nothing is known."""
        self.world = World()
        self.sentences: list[Sentence] = []
        self.before: Sequence[Entity] = ()  # named in the sentence before
        self.now: list[Entity] = []  # named in this sentence
        self.known: set[Entity] = set()  # named in any sentence
        self.subject: Entity | None = None  # who can do one thing more in the last sentence

    def __call__(self, kind, who, what=None, to=None, where=None, how="") -> None:
        """Let one event happen and say it in a sentence of its own. Raises Contradiction if it cannot happen."""
        event = Event(kind, who, what, to, where, how)
        self.world.apply(event)
        self.tell(event)

    def tell(self, event: Event) -> None:
        """Say an event in a sentence of its own; the world stays as it is."""
        pattern = self.pick(self._patterns(event.kind, event.how))
        form = self.pick(pattern)
        self.before = self.now
        self.now = []
        text, pronouns, names = self._say(event, form.parts)
        text = capital(text)
        if self.variety is None:  # the patterns of smaller worlds need it once, and their stories stay as they are
            text = capitals_within(text)
        told = Told(event, form.place, names)
        sentence = Sentence(text, (event,), pronouns, (told,))
        self.sentences.append(sentence)
        self.subject = event.who if form.goes_on else None

    def also(self, kind, who, what=None, to=None, where=None, how="") -> None:
        """Let one event happen and say it, often, as the second half of the last sentence, if that can be."""
        seconds = []
        for pattern in self._patterns(kind, how):
            seconds += [form for form in pattern if form.is_second]
        if self.subject is not who or not seconds or self.chance(0.3):
            return self(kind, who, what, to, where, how)
        event = Event(kind, who, what, to, where, how)
        self.world.apply(event)
        first = self.sentences.pop()
        form = self.pick(seconds)
        begun = first.text[:-1] + " and"  # in place of the period
        text, pronouns, names = self._say(event, (begun, *form.parts[1:]))
        told = Told(event, form.place, names)
        both = Sentence(text, (*first.events, event), first.pronouns + pronouns, (*first.told, told))
        self.sentences.append(both)
        self.subject = None

    def _patterns(self, kind: str, how: str) -> list[Pattern]:
        """The ways to say it that this variety allows: the first ones, and no choice within them."""
        patterns = look_up(PATTERNS, kind, how)
        if self.variety is None:
            return patterns
        allowed = patterns[: self.variety + 1]
        return [forms[:1] for forms in allowed]

    def _say(self, event: Event, parts: Parts) -> tuple[str, Pronouns, dict[str, str]]:
        """The text of a form for an event, its pronouns, and {role: form} of those whom it names."""
        text = ""
        pronouns = []
        names = {}
        for part in parts:
            if isinstance(part, str):
                text += part
            elif part.role == "how":
                text += event.how
            else:
                entity = getattr(event, part.role)
                form, words_of_it = self._refer(entity, part)
                if form in ("he", "him", "his"):
                    pronouns.append((len(text), entity.forms[form], entity))
                elif form != "girl":
                    names.setdefault(part.role, form)
                text += words_of_it
        return text, tuple(pronouns), names

    def _refer(self, entity: Entity, slot: Slot) -> tuple[str, str]:
        """(form, words) for an entity in a slot."""
        verb = slot.form if slot.form in VERBS_OF_SPEECH else ""
        form = slot.form
        if verb or form in ("", "sub"):
            form = self._fitting_form(entity, is_subject=verb or slot.role == "who" or form == "sub")
        self.now.append(entity)
        self.known.add(entity)
        word = entity.forms[form]
        if not verb:
            return form, word
        return form, f"{word} {verb}" if form == "he" else f"{verb} {word}"

    def _fitting_form(self, entity: Entity, is_subject: bool) -> str:
        """A pronoun, where it is clear whom it means; else a phrase that fits."""
        named = (*self.before, *self.now)
        if entity in named and self.random() < 0.6 and self._is_clear(entity, named):
            return "he" if is_subject else "him"
        if entity not in self.known and entity.kind != "person":
            return "a"
        if entity in named and self.random() < 0.5:
            return "short"
        return "the"

    @staticmethod
    def _is_clear(entity: Entity, named: Iterable[Entity]) -> bool:
        """Would a pronoun mean this entity and no other?"""
        return all(other is entity or other.gender != entity.gender for other in named)

    # What plots draw. `table` is {name: entities that differ in look}.

    def child(self) -> Entity:
        """One of the children of this cast."""
        girls = words.GIRLS[: self.variety]
        boys = words.BOYS[: self.variety]
        return self.pick(girls + boys)

    def children(self) -> tuple[Entity, Entity]:
        """A child and the best friend of that child."""
        hero = self.child()
        return hero, words.FRIENDS[hero]

    def thing(self, table: words.Looks, *others: Entity) -> Entity:
        """A thing whose name none of the others has."""
        taken = [other.name for other in others]
        free = [name for name in table if name not in taken]
        name = self.pick(free)
        return self.look(table[name])

    def own(self, child: Entity, table: words.Looks) -> Entity:
        """A thing of a child's own: two friends never have the same."""
        own = words.OWN[child.gender]
        names = [name for name in table if name in own]
        name = self.pick(names)
        return self.look(table[name])

    def look(self, looks: tuple[Entity, ...]) -> Entity:
        """One of the looks of a thing or an animal."""
        return self.pick(looks[: self.variety])

    def place(self, places: Iterable[Entity], *others: Entity) -> Entity:
        """One of the places, but none of the others."""
        free = [place for place in places if place not in others]
        return self.pick(free)

    def spot(self, places: Iterable[Entity], *others: Entity) -> Entity:
        """A spot in one of the places, but in none of the others."""
        place = self.place(places, *others)
        return self.pick(words.SPOTS[place])

    # What several plots tell.

    def begin(self, hero: Entity, traits=(), near: float = 0.0) -> None:
        """Who the story is about and, with probability `near`, where the house stands."""
        trait = self.pick(traits or words.TRAITS)
        self("meet", hero, how=trait)
        if self.chance(near):
            place = self.pick(words.NEAR_HOUSES)
            self("near", hero, to=place)

    def day(self, hero: Entity, place: Entity, weather: str = "", scene: float = 0.0) -> None:
        """Where the hero is and, with probability `scene`, what it is like there."""
        if not weather:
            weather = self.pick(words.FAIR)
        self("day", hero, to=place, how=weather)
        if self.chance(scene) and f"scene.{place.name}" in PATTERNS:
            self("scene", hero, to=place, how=place.name)

    def way(self, who: Entity, *others: Entity) -> None:
        """Now and then, an animal to see on the way that is none of the others."""
        if self.chance(0.4):
            animal = self.thing(words.SEEN, *others)
            self("way", who, animal)

    def home(self, who: Entity) -> None:
        """Go home; where the house stands is told again if it was told before."""
        near = self.world.near.get(who)
        self("home", who, to=words.HOME, where=near, how="near" if near else "")

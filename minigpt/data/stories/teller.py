"""The teller lets events happen in a world and says each in a sentence that fits what was said before."""

import random
import re
from itertools import product
from typing import NamedTuple

from minigpt.data.stories import words
from minigpt.data.stories.words import Entity
from minigpt.data.stories.world import Event, World, look_up
from minigpt.files import sections


class Sentence(NamedTuple):
    """One sentence (a line of speech may be two), what it tells, and whom its pronouns mean.

    `pronouns` are (offset in the text, word, entity).
    """

    text: str
    events: tuple[Event, ...]
    pronouns: tuple[tuple[int, str, Entity], ...]


class Form(NamedTuple):
    """A pattern in which every choice has been made, cut into texts and slots (role, form)."""

    parts: tuple
    goes_on: bool  # can a second verb follow? "Tom went home" + "and slept"
    is_second: bool  # can this be that second verb, without its subject?


def _expand(pattern: str) -> list[str]:
    """Every way to choose in `[one|other]`: "a [b|] c" -> ["a b c", "a c"]."""
    parts = re.split(r"\[(.*?)\]", pattern)
    choices = [part.split("|") if i % 2 else [part] for i, part in enumerate(parts)]
    return [re.sub(" +(?=[ ,.?!]|$)", "", "".join(chosen)).lstrip() for chosen in product(*choices)]


def _form(pattern: str) -> Form:
    """Cut a pattern into its parts: "Then {who} sat" -> ("Then ", ("who", ""), " sat.")."""
    cut = re.split(r"\{(.*?)\}", pattern if pattern[-1] in '!?"' else pattern + ".")
    parts = tuple(tuple((part + ".").split(".")[:2]) if i % 2 else part for i, part in enumerate(cut) if part)
    single = not re.search('["!?,]| and ', pattern)
    return Form(parts, single and "{who}" in pattern, single and pattern.startswith("{who} "))


# {kind: one tuple for each pattern, of its forms}
PATTERNS = {kind: [tuple(map(_form, _expand(pattern))) for pattern in patterns]
            for kind, patterns in sections.read(__file__, "patterns.txt").items()}


def capital(text: str) -> str:
    """The text with a capital at its beginning, or after an opening quotation mark."""
    start = 1 if text[0] == '"' else 0
    return text[:start] + text[start].upper() + text[start + 1:]


class Chance:
    """Choices drawn from `random()` of Python's Mersenne Twister: the same on every platform and version."""

    def __init__(self, seed: str):
        self.random = random.Random(seed).random

    def pick(self, options):
        return options[int(self.random() * len(options))]

    def chance(self, probability: float) -> bool:
        return self.random() < probability

    def mixed(self, options) -> list:
        """The options in any order."""
        return sorted(options, key=lambda option: self.random())


class Teller(Chance):
    """Tells events: each changes the world, and becomes a sentence or the second half of one.

    A pronoun is used only where it can mean one entity: it was named in this sentence or the one before, and no other
    of the same gender was. Patterns that say otherwise ("Tom thanked Ben, because he had helped him") are deliberate.
    """

    def __init__(self, seed: str, variety: int | None):
        super().__init__(seed)
        self.variety = variety  # so many pairs of friends, looks of a thing, and ways to say it and one more; None: all
        self.clear()

    def clear(self) -> None:
        """Begin anew, in a world of which nothing is known."""
        self.world = World()
        self.sentences: list[Sentence] = []
        self.before, self.now, self.known = (), [], set()  # named in the sentence before, in this one, ever
        self.subject = None  # whoever can do one thing more in the last sentence

    def __call__(self, kind, who, what=None, to=None, where=None, how="") -> None:
        """Let one event happen and say it in a sentence of its own."""
        event = Event(kind, who, what, to, where, how)
        self.world.apply(event)
        self.tell(event)

    def tell(self, event: Event) -> None:
        """Say an event in a sentence of its own; the world stays as it is."""
        form = self.pick(self.pick(self._patterns(event.kind, event.how)))
        self.before, self.now = self.now, []
        text, pronouns = self._say(event, form.parts)
        self.sentences.append(Sentence(capital(text), (event,), pronouns))
        self.subject = event.who if form.goes_on else None

    def also(self, kind, who, what=None, to=None, where=None, how="") -> None:
        """Let one event happen and say it, often, as the second half of the last sentence, if that can be."""
        forms = [form for pattern in self._patterns(kind, how) for form in pattern if form.is_second]
        if self.subject is not who or not forms or self.chance(0.3):
            return self(kind, who, what, to, where, how)
        event = Event(kind, who, what, to, where, how)
        self.world.apply(event)
        first = self.sentences.pop()
        text, pronouns = self._say(event, (first.text[:-1] + " and", *self.pick(forms).parts[1:]))
        self.sentences.append(Sentence(text, (*first.events, event), first.pronouns + pronouns))
        self.subject = None

    def _patterns(self, kind: str, how: str):
        """The ways to say it that this variety allows: the first ones, and no choice within them."""
        patterns = look_up(PATTERNS, kind, how)
        return patterns if self.variety is None else [forms[:1] for forms in patterns[: self.variety + 1]]

    def _say(self, event: Event, parts) -> tuple[str, tuple]:
        text, pronouns = "", []
        for part in parts:
            if part.__class__ is str:
                text += part
            elif part[0] == "how":
                text += event.how
            else:
                text += self._refer(getattr(event, part[0]), *part, len(text), pronouns)
        return text, tuple(pronouns)

    def _refer(self, entity: Entity, role: str, shape: str, offset: int, pronouns: list) -> str:
        """The words for an entity: the form asked for or, where that is left open, a pronoun or a phrase that fits."""
        verb = shape if shape in ("said", "asked", "cried") else ""
        if verb or shape in ("", "sub"):
            named = (*self.before, *self.now)
            subject = verb or role == "who" or shape == "sub"
            if entity in named and self.random() < 0.6 and self._clear(entity, named):
                shape = "he" if subject else "him"
            elif entity not in self.known and entity.kind != "person":
                shape = "a"
            else:
                shape = "short" if entity in named and self.random() < 0.5 else "the"
        self.now.append(entity)
        self.known.add(entity)
        word = entity.forms[shape]
        if shape in ("he", "him", "his"):
            pronouns.append((offset, word, entity))
        if verb:
            return f"{word} {verb}" if shape == "he" else f"{verb} {word}"
        return word

    @staticmethod
    def _clear(entity: Entity, named) -> bool:
        """Would a pronoun mean this entity and no other?"""
        return all(other is entity or other.gender != entity.gender for other in named)

    # What plots draw. `table` is {name: entities that differ in look}.

    def child(self):
        """One of the children of this cast."""
        return self.pick(words.GIRLS[: self.variety] + words.BOYS[: self.variety])

    def children(self):
        """A child and the best friend of that child."""
        hero = self.child()
        return hero, words.FRIENDS[hero]

    def thing(self, table, *others):
        """A thing whose name none of the others has."""
        taken = [other.name for other in others]
        return self.look(table[self.pick([name for name in table if name not in taken])])

    def own(self, child, table):
        """A thing of a child's own: two friends never have the same."""
        return self.look(table[self.pick([name for name in table if name in words.OWN[child.gender]])])

    def look(self, looks):
        """One of the looks of a thing or an animal."""
        return self.pick(looks[: self.variety])

    def place(self, places, *others):
        """One of the places, but none of the others."""
        return self.pick([place for place in places if place not in others])

    def spot(self, places, *others):
        """A spot in one of the places, but in none of the others."""
        return self.pick(words.SPOTS[self.place(places, *others)])

    # What several plots tell.

    def begin(self, hero, traits=(), near=0.0) -> None:
        """Who the story is about and, with probability `near`, where the house stands."""
        self("meet", hero, how=self.pick(traits or words.TRAITS))
        if self.chance(near):
            self("near", hero, to=self.pick(words.NEAR_HOUSES))

    def day(self, hero, place, weather="", scene=0.0) -> None:
        """Where the hero is and, with probability `scene`, what it is like there."""
        self("day", hero, to=place, how=weather or self.pick(words.FAIR))
        if self.chance(scene) and f"scene.{place.name}" in PATTERNS:
            self("scene", hero, to=place, how=place.name)

    def way(self, who, *others) -> None:
        """Now and then, an animal to see on the way that is none of the others."""
        if self.chance(0.4):
            self("way", who, self.thing(words.SEEN, *others))

    def home(self, who) -> None:
        """Go home; where that is, is said again if it was said before."""
        near = self.world.near.get(who)
        self("home", who, to=words.HOME, where=near, how="near" if near else "")

"""Scripts: texts of two to five sentences, after each of which there are questions that the world can answer.

In each, two people, things or places play the same part: two toys are put at two spots, two animals sit near. A script
returns pairs of states that differ in one role; `World.problem` tells which one is so. What comes first, who acts and
which pair is used are drawn: every word is in true and in false answers equally often.
"""

import re
from itertools import combinations
from zlib import crc32

from minigpt.data.stories import VARIETY
from minigpt.data.stories import words as w
from minigpt.data.stories.teller import PATTERNS, Form, Pattern, Teller, capital
from minigpt.data.stories.words import Entity
from minigpt.data.stories.world import Event, look_up

TENTHS = 4 * ("train",) + 3 * ("valid",) + 3 * ("test",)  # of all sentences
SPLITS = tuple(dict.fromkeys(TENTHS))
N_TRIES = 12  # to find a sentence of the split

Entities = tuple[Entity, ...]
StatePair = tuple[Event, Event]


class Stuck(Exception):
    """No sentence of this split goes on from here: begin another text."""


def sentences(text: str) -> list[str]:
    """A text cut into its sentences: after . ! or ?, with or without a quotation mark, where a new one begins."""
    return re.split(r'(?:(?<=[.!?])|(?<=[.!?]"))\s+(?=["A-Z])', text)


def split_of(sentence: str) -> str:
    """The split to which a sentence belongs, in every task."""
    return TENTHS[crc32(sentence.encode("utf-8")) % 10]


class Script(Teller):
    """A teller that keeps to one split: of a role that is given as a tuple, it draws until the sentence fits.

    variety: 1 to 3, see `stories.story`; same_gender: the two people of a text are of one gender.
    """

    def __init__(self, seed: str, variety: int, split: str, same_gender: bool):
        super().__init__(seed, variety if variety < VARIETY else None)
        self.split = split
        self.same_gender = same_gender
        self.unused = []  # sentences of a story that the task "acceptability" has not used yet
        self.children = w.GIRLS[:variety] + w.BOYS[:variety]
        self.people = self.children + w.FAMILY + w.WORKERS
        self.foods = tuple(w.FOODS.values())
        self.spots = sum(w.SPOTS.values(), ())
        self.places = tuple(spot.place for spot in self.spots)  # each as often as it has spots
        self.breakable = self._in_all_looks(w.BREAKABLE)
        self.light = self._in_all_looks(w.LIGHT)
        self.boxes = self._in_all_looks(w.BOXES)
        self.animals = self._in_all_looks(w.ANIMALS | w.SMALL_ANIMALS)
        self.things = self._in_all_looks(w.TOYS | w.LIGHT)

    def _in_all_looks(self, table: w.Looks) -> Entities:
        """All entities of a table, in as many looks as the variety allows."""
        entities = []
        for looks in table.values():
            entities += looks[: self.variety]
        return tuple(entities)

    def __call__(self, kind, who, what=None, to=None, where=None, how="") -> Event:
        """Let one event happen and say it, as `Teller` does; returns it. Raises Stuck if nothing fits in 12 tries."""
        for _ in range(N_TRIES):
            event = self.draw(kind, who, what, to, where, how)
            if self.world.problem(event):
                continue
            saved = (self.before, self.now, set(self.known), self.subject)
            self.tell(event)
            if self.fits(self.sentences[-1].text):
                self.world.apply(event)
                return event
            self.sentences.pop()
            self.before, self.now, self.known, self.subject = saved
        raise Stuck

    def draw(self, kind: str, *roles) -> Event:
        """An event; of every role that is given as a tuple, one is picked. Raises Stuck where a tuple is empty."""
        if () in roles:
            raise Stuck
        drawn = [self.pick(role) if isinstance(role, tuple) else role for role in roles]
        return Event(kind, *drawn)

    def fits(self, text: str) -> bool:
        """Are all its sentences of this split?"""
        return all(split_of(sentence) == self.split for sentence in sentences(text))

    def text(self) -> str:
        """All that was told."""
        return " ".join(sentence.text for sentence in self.sentences)

    def alone(self, event: Event, form: Form) -> str:
        """An event, which need not happen, in a sentence that needs no other before it."""
        self.before = ()
        self.now = []
        text, _ = self._say(event, form.parts)
        return capital(text)

    def alike(self, *events: Event) -> tuple[str, ...]:
        """States or questions of one kind, all said in the same way. Raises Stuck if this split has none for them."""
        patterns: list[Pattern] = look_up(PATTERNS, events[0].kind, events[0].how)
        for form in self.mixed(sum(patterns, ())):
            texts = tuple(self.alone(event, form) for event in events)
            if all(map(self.fits, texts)):
                return texts
        raise Stuck

    def rival(self, hero: Entity) -> Entities:
        """Who can be the second person of a text."""
        genders = hero.gender if self.same_gender else "fm"
        return tuple(person for person in self.people if person is not hero and person.gender in genders)

    def own_of(self, who: Entity, things: Entities) -> Entities:
        """Those of the things that girls, or boys, have of their own."""
        names = w.OWN[who.gender]
        return tuple(thing for thing in things if thing.name in names)

    def scene(self) -> tuple[Entity, Entity]:
        """A child, and the place where it is."""
        event = self("day", self.children, to=self.places, how=w.FAIR)
        return event.who, event.to

    def meet(self, hero: Entity, place: Entity) -> Entity:
        """Another person, whom the hero meets there."""
        return self("meets", self.rival(hero), to=hero, where=place).who


def others(options: Entities, *taken: Entity) -> Entities:
    """The options that share their name with none of the taken."""
    names = [one.name for one in taken]
    return tuple(option for option in options if option.name not in names)


def state(how, who=None, what=None, to=None, where=None) -> Event:
    """What may be so or not: somebody has a thing, a thing lies at a spot, …"""
    return Event("state", who, what, to, where, how)


def either(event: Event, role: str, *values: Entity) -> list[StatePair]:
    """Pairs of events that differ in one role."""
    pairs = []
    for one, other in combinations(values, 2):
        pairs.append((event._replace(**{role: one}), event._replace(**{role: other})))
    return pairs


def left(t: Script) -> list[StatePair]:
    """Two things are put at two spots of a place, and one of them may be moved."""
    hero, place = t.scene()
    spots = w.SPOTS[place]
    own = t.own_of(hero, t.things)
    one = t("put", hero, own, where=spots)
    two = t("put", hero, others(own, one.what), where=others(spots, one.where))
    if t.chance(0.3):
        mover = t.meet(hero, place)
        moved = t.pick((one, two)).what
        t("move", mover, moved, where=spots)
    pairs = []
    for spot in spots:
        pairs += either(state("lies", where=spot), "who", one.what, two.what)
    for thing in (one.what, two.what):
        pairs += either(state("lies", thing), "where", *spots)
        pairs += either(state("found", hero, thing), "where", *spots)
    return pairs


def lost(t: Script) -> list[StatePair]:
    """Somebody has lost a thing, looks for it at one spot in vain, is told of another, and goes there."""
    hero, place = t.scene()
    other = t.meet(hero, place)
    thing = t("lose", hero, t.own_of(hero, t.things)).what
    spots = []
    for kind in t.mixed(("miss", "tell")):
        if kind == "miss":
            event = t("miss", hero, thing, where=w.SPOTS[place])
        else:
            elsewhere = tuple(spot for spot in t.spots if spot.place is not place)
            event = t("tell", other, thing, to=hero, where=elsewhere)
            goal = event.where.place
        spots.append(event.where)
    t("go", hero, to=goal)
    pairs = either(state("found", hero, thing), "where", *spots)
    pairs += either(state("lies", thing), "where", *spots)
    return pairs


def lent(t: Script) -> list[StatePair]:
    """Two people have lent each other something; one of the things may be given back, or break."""
    hero, place = t.scene()
    first, second = t.mixed((hero, t.meet(hero, place)))
    one = t("lend", first, t.own_of(first, t.breakable), to=second)
    two = t("lend", second, others(t.own_of(second, t.breakable), one.what), to=first)
    loan = t.pick((one, two))
    end = t.pick(("give", "break", ""))
    if end == "give":
        t("give", loan.to, loan.what, to=loan.who, how="back")
    elif end == "break":
        t("break", loan.to, loan.what)
    pairs = []
    for loan in (one, two):
        owner, thing, borrower = loan.who, loan.what, loan.to
        pairs += either(state("has", what=thing), "who", owner, borrower)
        pairs += either(state("broken", what=thing), "who", owner, borrower)
        if t.world.lies[thing] is borrower:
            pairs.append((state("give", owner, thing, borrower), state("give", borrower, thing, owner)))
    return pairs


def kept(t: Script) -> list[StatePair]:
    """Two things are kept in two boxes, and one of them may be put into another box."""
    hero = t.pick(t.children)
    other = t.pick(t.children)
    one = t("keep", hero, t.own_of(hero, t.things), to=t.boxes, where=t.spots)
    rest = others(t.own_of(other, t.things), one.what)
    two = t("keep", other, rest, to=others(t.boxes, one.to), where=t.spots)
    things = (one.what, two.what)
    boxes = [one.to, two.to]
    if t.chance(0.3):
        moved = t.pick((one, two))
        event = t("into", moved.who, moved.what, to=others(t.boxes, moved.to))
        boxes.append(event.to)
    boxes = tuple(dict.fromkeys(boxes))  # each once
    pairs = []
    for box in boxes:
        pairs += either(state("in", to=box), "who", *things)
        pairs += either(state("inside", hero, to=box), "what", *things)
    for thing in things:
        pairs += either(state("in", thing), "to", *boxes)
    return pairs


def went(t: Script) -> list[StatePair]:
    """Two people are at two places, and one of them or both go elsewhere."""
    hero, start = t.scene()
    event = t("lives", t.rival(hero), to=others(t.places, start))
    other, there = event.who, event.to
    last_place = {hero: start, other: there}
    walkers = t.mixed(last_place)
    n_walkers = t.pick((1, 2))
    for who in walkers[:n_walkers]:
        last_place[who] = t("go", who, to=others(t.places, start, there)).to
    places = dict.fromkeys((start, there, *last_place.values()))
    pairs = []
    for who in last_place:
        pairs += either(state("at", who), "to", *places)
    for place in places:
        pairs += either(state("at", to=place), "who", hero, other)
    return pairs


def took(t: Script) -> list[StatePair]:
    """Two animals are near. One of them takes something from a child, and may leave it somewhere."""
    hero, place = t.scene()
    spots = w.SPOTS[place]
    one = t("sits", t.animals, to=hero, where=spots)
    two = t("sits", others(t.animals, one.who), to=hero, where=others(spots, one.where))
    thing = t("own", hero, t.own_of(hero, t.things), how="new").what
    thief = t("steal", (one.who, two.who), thing, to=hero).who
    if t.chance(0.3):
        t("drop", thief, thing, where=spots)
    pairs = either(state("lies", thing), "where", *spots)
    pairs += either(state("has", what=thing), "who", one.who, two.who)
    return pairs


def fed(t: Script) -> list[StatePair]:
    """Two animals, and two kinds of food: each animal likes one of them."""
    hero, place = t.scene()
    kinds = t.mixed(w.LIKES)[:2]
    foods = [w.FOODS[w.LIKES[kind]["food"]] for kind in kinds]
    animals = []
    for kind in t.mixed(kinds):
        looks = w.ANIMALS[kind][: t.variety]
        animals.append(t("sits", looks, to=hero, where=w.SPOTS[place]).who)
    for food in t.mixed(foods):
        t("own", hero, food, how="new")
    pairs = []
    for food in foods:
        pairs += either(state("eats", what=food), "who", *animals)
    for animal in animals:
        pairs += either(state("feed", hero, to=animal), "what", *foods)
        pairs += either(state("eats", animal), "what", *foods)
    return pairs


def baked(t: Script) -> list[StatePair]:
    """What a dish is made of; each part of it is always found at the same spot."""
    hero = t.pick(t.children)
    t("day", hero, to=w.PLACES["kitchen"], how=w.FAIR)
    dish = t("baking", hero, tuple(w.DISHES.values()), to=w.FAMILY).what
    parts = [w.FOODS[part] for part in t.mixed(w.RECIPES[dish.name])]
    spots = [w.LARDER[part.name] for part in parts]
    t("need", hero, parts[0], to=parts[1])
    pairs = []
    for spot in spots:
        pairs += either(state("stored", where=spot), "who", *parts)
    for part in parts:
        pairs += either(state("get", hero, part), "where", *spots)
        pairs += either(state("stored", part), "where", *spots)
    return pairs


SCRIPTS = (left, lost, lent, kept, went, took)  # whose answers are in the text
KNOWING = (fed, baked)  # whose answers every reader of stories knows

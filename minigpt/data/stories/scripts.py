"""Scripts: texts of two to five sentences, after each of which the world knows what could be asked.

In each, two people, things or places play the same part: two toys are put at two spots, two animals sit near. What it
returns are pairs of states that differ in one role; `World.problem` says which one is so. What comes first, who acts
and what is asked are drawn: every word is in true and in false answers equally often.
"""

import re
from itertools import combinations
from zlib import crc32

from minigpt.data.stories import VARIETY
from minigpt.data.stories import words as w
from minigpt.data.stories.teller import PATTERNS, Teller, capital
from minigpt.data.stories.world import Event, look_up

TENTHS = 4 * ("train",) + 3 * ("valid",) + 3 * ("test",)  # of all sentences


class Stuck(Exception):
    """No sentence of this split goes on from here: begin another text."""


def sentences(text: str) -> list[str]:
    """A text cut into its sentences: after . ! or ?, with or without a quotation mark, where a new one begins."""
    return re.split(r'(?:(?<=[.!?])|(?<=[.!?]"))\s+(?=["A-Z])', text)


def split_of(sentence: str) -> str:
    """The split to which a sentence belongs, in every task."""
    return TENTHS[crc32(sentence.encode("utf-8")) % 10]


class Script(Teller):
    """A teller that keeps to one split: of a role that is given as a tuple, it draws until the sentence fits."""

    def __init__(self, seed: str, variety: int, split: str, same_gender: bool):
        super().__init__(seed, variety if variety < VARIETY else None)
        self.split, self.heard = split, []
        self.same_gender = same_gender  # of the two people of a text
        self.children = w.GIRLS[:variety] + w.BOYS[:variety]
        self.people = self.children + w.FAMILY + w.WORKERS
        self.foods, self.spots = tuple(w.FOODS.values()), sum(w.SPOTS.values(), ())
        self.places = tuple(spot.place for spot in self.spots)  # each as often as it has spots
        self.breakable, self.light, self.boxes, self.animals, self.things = (
            tuple(one for looks in table.values() for one in looks[: self.variety])
            for table in (w.BREAKABLE, w.LIGHT, w.BOXES, w.ANIMALS | w.SMALL_ANIMALS, w.TOYS | w.LIGHT))

    def __call__(self, kind, who, what=None, to=None, where=None, how="") -> Event:
        """Let one event happen and say it, as `Teller` does; returns it. Raises Stuck if nothing fits in 12 tries."""
        for _ in range(12):
            event = self.draw(kind, who, what, to, where, how)
            if self.world.problem(event):
                continue
            saved = self.before, self.now, set(self.known), self.subject
            self.tell(event)
            if self.fits(self.sentences[-1].text):
                self.world.apply(event)
                return event
            self.sentences.pop()
            self.before, self.now, self.known, self.subject = saved
        raise Stuck

    def draw(self, kind, *roles) -> Event:
        """An event; of every role that is given as a tuple, one is picked."""
        if () in roles:
            raise Stuck
        return Event(kind, *(self.pick(role) if role.__class__ is tuple else role for role in roles))

    def fits(self, text: str) -> bool:
        """Are all its sentences of this split?"""
        return all(split_of(sentence) == self.split for sentence in sentences(text))

    def text(self) -> str:
        """All that was told."""
        return " ".join(sentence.text for sentence in self.sentences)

    def alone(self, event: Event, form) -> str:
        """An event, which need not happen, in a sentence that needs no other before it."""
        self.before, self.now = (), []
        return capital(self._say(event, form.parts)[0])

    def alike(self, *events: Event) -> tuple[str, ...]:
        """States or questions of one kind, all said in the same way. Raises Stuck if this split has none for them."""
        for form in self.mixed(sum(look_up(PATTERNS, *events[0][::5]), ())):
            texts = tuple(self.alone(event, form) for event in events)
            if all(map(self.fits, texts)):
                return texts
        raise Stuck

    def rival(self, hero) -> tuple:
        """Who can be the second person of a text."""
        genders = hero.gender if self.same_gender else "fm"
        return tuple(one for one in self.people if one is not hero and one.gender in genders)

    def own_of(self, who, table) -> tuple:
        """Those of the things that girls, or boys, have of their own."""
        return tuple(thing for thing in table if thing.name in w.OWN[who.gender])

    def scene(self, meeting: bool = False) -> tuple:
        """A child at a place, and whom it meets there."""
        hero, _, place = self("day", self.children, to=self.places, how=w.FAIR)[1:4]
        return hero, self("meets", self.rival(hero), to=hero, where=place).who if meeting else None, place


def others(options, *taken) -> tuple:
    """The options that share their name with none of the taken."""
    names = [one.name for one in taken]
    return tuple(option for option in options if option.name not in names)


def state(how, who=None, what=None, to=None, where=None) -> Event:
    """What may be so or not: somebody has a thing, a thing lies at a spot, …"""
    return Event("state", who, what, to, where, how)


def either(event: Event, role: str, *values) -> list[tuple[Event, Event]]:
    """Pairs of events that differ in one role."""
    return [tuple(event._replace(**{role: value}) for value in two) for two in combinations(values, 2)]


def left(t):
    """Two things are put at two spots of a place, and one of them may be moved."""
    hero, _, place = t.scene()
    spots = w.SPOTS[place]
    one = t("put", hero, t.own_of(hero, t.things), where=spots)
    two = t("put", hero, others(t.own_of(hero, t.things), one.what), where=others(spots, one.where))
    if t.chance(0.3):
        mover = t("meets", t.rival(hero), to=hero, where=place).who
        t("move", mover, t.pick((one, two)).what, where=spots)
    asked = [pair for spot in spots for pair in either(state("lies", where=spot), "who", one.what, two.what)]
    for thing in (one.what, two.what):
        asked += either(state("lies", thing), "where", *spots) + either(state("found", hero, thing), "where", *spots)
    return asked


def lost(t):
    """Somebody has lost a thing, looks for it at one spot in vain, hears of another, and goes there."""
    hero, other, place = t.scene(meeting=True)
    thing = t("lose", hero, t.own_of(hero, t.things)).what
    spots = {}
    for kind in t.mixed(("miss", "tell")):
        spots[kind] = (t(kind, hero, thing, where=w.SPOTS[place]) if kind == "miss" else
                       t(kind, other, thing, to=hero, where=tuple(s for s in t.spots if s.place is not place))).where
    t("go", hero, to=spots["tell"].place)
    return [pair for event in (state("found", hero, thing), state("lies", thing))
            for pair in either(event, "where", *spots.values())]


def lent(t):
    """Two people have lent each other something; one of the things may be given back, or break."""
    hero, other, _ = t.scene(meeting=True)
    hero, other = t.mixed((hero, other))
    one = t("lend", hero, t.own_of(hero, t.breakable), to=other)
    two = t("lend", other, others(t.own_of(other, t.breakable), one.what), to=hero)
    by, what, to = t.pick((one, two))[1:4]
    end = t.pick(("give", "break", ""))
    if end == "give":
        t("give", to, what, to=by, how="back")
    elif end == "break":
        t("break", to, what)
    asked = []
    for _, by, what, to, *_ in (one, two):
        asked += either(state("has", what=what), "who", by, to) + either(state("broken", what=what), "who", by, to)
        if t.world.lies[what] is to:
            asked.append((state("give", by, what, to), state("give", to, what, by)))
    return asked


def kept(t):
    """Two things are kept in two boxes, and one of them may be put into another box."""
    pair = t.pick(t.children), t.pick(t.children)
    one = t("keep", pair[0], t.own_of(pair[0], t.things), to=t.boxes, where=t.spots)
    two = t("keep", pair[1], others(t.own_of(pair[1], t.things), one.what), to=others(t.boxes, one.to), where=t.spots)
    things, boxes = (one.what, two.what), [one.to, two.to]
    if t.chance(0.3):
        moved = t.pick((one, two))
        boxes.append(t("into", moved.who, moved.what, to=others(t.boxes, moved.to)).to)
    asked, boxes = [], dict.fromkeys(boxes)
    for box in boxes:
        asked += either(state("in", to=box), "who", *things) + either(state("inside", pair[0], to=box), "what", *things)
    return asked + [two for thing in things for two in either(state("in", thing), "to", *boxes)]


def went(t):
    """Two people are at two places, and one of them or both go elsewhere."""
    hero, _, start = t.scene()
    other, _, there = t("lives", t.rival(hero), to=others(t.places, start))[1:4]
    been = {hero: start, other: there}
    for who in t.mixed(been)[: t.pick((1, 2))]:
        been[who] = t("go", who, to=others(t.places, start, there)).to
    places = dict.fromkeys((start, there, *been.values()))
    return [pair for who in been for pair in either(state("at", who), "to", *places)] + [
        pair for place in places for pair in either(state("at", to=place), "who", hero, other)]


def took(t):
    """Two animals are near. One of them takes something from a child, and may leave it somewhere."""
    hero, _, place = t.scene()
    spots = w.SPOTS[place]
    one = t("sits", t.animals, to=hero, where=spots)
    two = t("sits", others(t.animals, one.who), to=hero, where=others(spots, one.where))
    thing = t("own", hero, t.own_of(hero, t.things), how="new").what
    thief = t("steal", (one.who, two.who), thing, to=hero).who
    if t.chance(0.3):
        t("drop", thief, thing, where=spots)
    return either(state("lies", thing), "where", *spots) + either(state("has", what=thing), "who", one.who, two.who)


def fed(t):
    """Two animals, and two kinds of food: each animal likes one of them."""
    hero, _, place = t.scene()
    kinds, animals = t.mixed(w.LIKES)[:2], []
    foods = [w.FOODS[w.LIKES[kind][0]] for kind in kinds]
    for kind in t.mixed(kinds):
        animals.append(t("sits", w.ANIMALS[kind][: t.variety], to=hero, where=w.SPOTS[place]).who)
    for food in t.mixed(foods):
        t("own", hero, food, how="new")
    asked = [pair for food in foods for pair in either(state("eats", what=food), "who", *animals)]
    for animal in animals:
        asked += either(state("feed", hero, to=animal), "what", *foods) + either(state("eats", animal), "what", *foods)
    return asked


def baked(t):
    """What a dish is made of; each part of it is always found at the same spot."""
    hero = t.pick(t.children)
    t("day", hero, to=w.PLACES["kitchen"], how=w.FAIR)
    dish = t("baking", hero, tuple(w.DISH.values()), to=w.FAMILY).what.name
    parts = [w.FOODS[part] for part in t.mixed(w.DISHES[dish])]
    spots = [w.LARDER[part.name] for part in parts]
    t("need", hero, parts[0], to=parts[1])
    asked = [pair for spot in spots for pair in either(state("stored", where=spot), "who", *parts)]
    for part in parts:
        asked += either(state("get", hero, part), "where", *spots) + either(state("stored", part), "where", *spots)
    return asked


SCRIPTS = (left, lost, lent, kept, went, took)  # whose answers are in the text
KNOWING = (fed, baked)  # whose answers every reader of stories knows

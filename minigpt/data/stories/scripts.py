"""Scripts: texts of two to five sentences, after each of which there are questions that the world can answer.

In each, two people, things or places play the same part: two toys are put at two spots, two animals sit near. A script
returns pairs of states that differ in one role; `World.problem` tells which one is so. What comes first, who acts and
which pair is used are drawn: every word is in true and in false answers equally often.
"""

import re
from itertools import combinations
from typing import Any
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
StatePairs = list[tuple[Event, Event]]  # of each pair one may be true, and the other is false then


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

    children: Any  # all of them, and not a method that draws two

    def __init__(self, seed: str, variety: int, split: str, same_gender: bool):
        super().__init__(seed, variety if variety < VARIETY else None)
        self.split = split
        self.same_gender = same_gender
        self.unused = []  # sentences of a story that the task "acceptability" has not used yet
        self.endings: dict[str, str] = {}  # {child: the ending of its last story}, for "continuation" and "cloze"
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
        drawn = []
        for role in roles:
            if isinstance(role, tuple):
                role = self.pick(role)
            drawn.append(role)
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
        text, *_ = self._say(event, form.parts)
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
        rivals = []
        for person in self.people:
            if person is not hero and person.gender in genders:
                rivals.append(person)
        return tuple(rivals)

    def own_of(self, who: Entity, things: Entities) -> Entities:
        """Those of the things that girls, or boys, have of their own."""
        names = w.OWN[who.gender]
        return tuple(thing for thing in things if thing.name in names)

    def scene(self) -> tuple[Entity, Entity]:
        """A child, and the place where it is."""
        event = self("day", self.children, to=self.places, how=w.FAIR)
        return event.who, event.to  # type: ignore[return-value]  # this kind has one

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


def either(event: Event, role: str, *values: Entity) -> StatePairs:
    """Pairs of events that differ in one role."""
    events = [event._replace(**{role: value}) for value in values]
    return list(combinations(events, 2))


def left(t: Script) -> StatePairs:
    """Two things are put at two spots of a place, and one of them may be moved."""
    hero, place = t.scene()
    spots = w.SPOTS[place]
    own = t.own_of(hero, t.things)
    one = t("put", hero, own, where=spots)
    other_things = others(own, one.what)
    other_spots = others(spots, one.where)
    two = t("put", hero, other_things, where=other_spots)
    if t.chance(0.3):
        mover = t.meet(hero, place)
        moved = t.pick((one, two)).what
        t("move", mover, moved, where=spots)
    things = (one.what, two.what)
    pairs = []
    for spot in spots:
        lies_there = state("lies", where=spot)
        pairs += either(lies_there, "who", *things)
    for thing in things:
        lies = state("lies", thing)
        found = state("found", hero, thing)
        pairs += either(lies, "where", *spots)
        pairs += either(found, "where", *spots)
    return pairs


def lost(t: Script) -> StatePairs:
    """Somebody has lost a thing, looks for it at one spot in vain, is told of another, and goes there."""
    hero, place = t.scene()
    other = t.meet(hero, place)
    own = t.own_of(hero, t.things)
    thing = t("lose", hero, own).what
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
    found = state("found", hero, thing)
    lies = state("lies", thing)
    return either(found, "where", *spots) + either(lies, "where", *spots)


def lent(t: Script) -> StatePairs:
    """Two people have lent each other something; one of the things may be given back, or break."""
    hero, place = t.scene()
    first, second = t.mixed((hero, t.meet(hero, place)))
    first_own = t.own_of(first, t.breakable)
    second_own = t.own_of(second, t.breakable)
    one = t("lend", first, first_own, to=second)
    two = t("lend", second, others(second_own, one.what), to=first)
    loan = t.pick((one, two))
    end = t.pick(("give", "break", ""))
    if end == "give":
        t("give", loan.to, loan.what, to=loan.who, how="back")
    elif end == "break":
        t("break", loan.to, loan.what)
    pairs = []
    for loan in (one, two):
        owner = loan.who
        thing = loan.what
        borrower = loan.to
        has = state("has", what=thing)
        is_broken = state("broken", what=thing)
        pairs += either(has, "who", owner, borrower)
        pairs += either(is_broken, "who", owner, borrower)
        if t.world.lies[thing] is borrower:
            owner_gives = state("give", owner, thing, borrower)
            borrower_gives = state("give", borrower, thing, owner)
            pairs.append((owner_gives, borrower_gives))
    return pairs


def kept(t: Script) -> StatePairs:
    """Two things are kept in two boxes, and one of them may be put into another box."""
    hero = t.pick(t.children)
    other = t.pick(t.children)
    hero_own = t.own_of(hero, t.things)
    other_own = t.own_of(other, t.things)
    one = t("keep", hero, hero_own, to=t.boxes, where=t.spots)
    other_things = others(other_own, one.what)
    other_boxes = others(t.boxes, one.to)
    two = t("keep", other, other_things, to=other_boxes, where=t.spots)
    things = (one.what, two.what)
    boxes = [one.to, two.to]
    if t.chance(0.3):
        moved = t.pick((one, two))
        new_boxes = others(t.boxes, moved.to)
        event = t("into", moved.who, moved.what, to=new_boxes)
        boxes.append(event.to)
    boxes = tuple(dict.fromkeys(boxes))  # each once
    pairs = []
    for box in boxes:
        is_in_it = state("in", to=box)
        inside = state("inside", hero, to=box)
        pairs += either(is_in_it, "who", *things)
        pairs += either(inside, "what", *things)
    for thing in things:
        is_in = state("in", thing)
        pairs += either(is_in, "to", *boxes)
    return pairs


def went(t: Script) -> StatePairs:
    """Two people are at two places, and one of them or both go elsewhere."""
    hero, start = t.scene()
    event = t("lives", t.rival(hero), to=others(t.places, start))
    other = event.who
    there = event.to
    last_place = {hero: start, other: there}
    walkers = t.mixed(last_place)
    n_walkers = t.pick((1, 2))
    new_places = others(t.places, start, there)
    for who in walkers[:n_walkers]:
        event = t("go", who, to=new_places)
        last_place[who] = event.to
    places = dict.fromkeys((start, there, *last_place.values()))
    pairs = []
    for who in last_place:
        is_at = state("at", who)
        pairs += either(is_at, "to", *places)
    for place in places:
        is_there = state("at", to=place)
        pairs += either(is_there, "who", hero, other)
    return pairs


def took(t: Script) -> StatePairs:
    """Two animals are near. One of them takes something from a child, and may leave it somewhere."""
    hero, place = t.scene()
    spots = w.SPOTS[place]
    one = t("sits", t.animals, to=hero, where=spots)
    other_animals = others(t.animals, one.who)
    other_spots = others(spots, one.where)
    two = t("sits", other_animals, to=hero, where=other_spots)
    animals = (one.who, two.who)
    own = t.own_of(hero, t.things)
    thing = t("own", hero, own, how="new").what
    thief = t("steal", animals, thing, to=hero).who
    if t.chance(0.3):
        t("drop", thief, thing, where=spots)
    lies = state("lies", thing)
    has = state("has", what=thing)
    return either(lies, "where", *spots) + either(has, "who", *animals)


def fed(t: Script) -> StatePairs:
    """Two animals, and two kinds of food: each animal likes one of them."""
    hero, place = t.scene()
    kinds = t.mixed(w.LIKES)[:2]
    foods = [w.FOODS[w.LIKES[kind]["food"]] for kind in kinds]
    animals = []
    for kind in t.mixed(kinds):
        looks = w.ANIMALS[kind][: t.variety]
        event = t("sits", looks, to=hero, where=w.SPOTS[place])
        animals.append(event.who)
    for food in t.mixed(foods):
        t("own", hero, food, how="new")
    pairs = []
    for food in foods:
        eats_it = state("eats", what=food)
        pairs += either(eats_it, "who", *animals)
    for animal in animals:
        feed = state("feed", hero, to=animal)
        eats = state("eats", animal)
        pairs += either(feed, "what", *foods)
        pairs += either(eats, "what", *foods)
    return pairs


def baked(t: Script) -> StatePairs:
    """What a dish is made of; each part of it is always found at the same spot."""
    hero = t.pick(t.children)
    t("day", hero, to=w.PLACES["kitchen"], how=w.FAIR)
    dishes = tuple(w.DISHES.values())
    dish = t("baking", hero, dishes, to=w.FAMILY).what
    names = t.mixed(w.RECIPES[dish.name])
    parts = [w.FOODS[name] for name in names]
    spots = [w.LARDER[part.name] for part in parts]
    t("need", hero, parts[0], to=parts[1])
    pairs = []
    for spot in spots:
        is_stored_there = state("stored", where=spot)
        pairs += either(is_stored_there, "who", *parts)
    for part in parts:
        get = state("get", hero, part)
        is_stored = state("stored", part)
        pairs += either(get, "where", *spots)
        pairs += either(is_stored, "where", *spots)
    return pairs


SCRIPTS = (left, lost, lent, kept, went, took)  # whose answers are in the text
KNOWING = (fed, baked)  # whose answers every reader of stories knows

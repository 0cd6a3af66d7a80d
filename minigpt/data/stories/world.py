"""The state of the story world: what a reader who has understood every sentence so far knows.

Nothing is true here unless a sentence told it. Every kind of event has a rule (`rules.txt`): what must be so before,
and what it changes. So a story cannot contradict itself; and whoever needs a *wrong* sentence asks the world whether it
is one.
"""

from itertools import chain
from typing import NamedTuple

from minigpt.data.stories.words import HOME, INDOORS, LARDER, LIKES, Entity
from minigpt.files import sections


class Event(NamedTuple):
    """One thing that happens or is told: `give(who=Tom, what=the red ball, to=Mia)`.

    `how` is a word of the event's own: a mood and its cause ("sad.lost"), a trait, the weather.
    """

    kind: str
    who: Entity
    what: Entity | None = None
    to: Entity | None = None
    where: Entity | None = None
    how: str = ""

    def __str__(self) -> str:
        roles = (f"{role}={value}" for role, value in self._asdict().items() if value and role != "kind")
        return f"{self.kind}({', '.join(roles)})"


class Contradiction(Exception):
    """An event that cannot happen after what was told."""


def _role(word: str):
    """The position of a role in an event, or any other word as it is."""
    return Event._fields.index(word) if word in Event._fields else word


def _read(lines) -> dict:
    """{kind: (needs, changes)}; a need is (name, roles), a change (table, key roles, value)."""
    rules = {}
    for line in lines:
        kinds, rule = line.split(":")
        needs, changes = ([[_role(word) for word in part.replace("=", " ").split()] for part in half.split(",")]
                          for half in rule.split("->"))
        needs = [(need, tuple(about)) for need, *about in filter(None, needs)]
        changes = [(table, tuple(key), value) for table, *key, value in filter(None, changes)]
        rules.update(dict.fromkeys(map(str.strip, kinds.split(",")), (needs, changes)))
    return rules


RULES = _read(chain.from_iterable(sections.read(__file__, "rules.txt").values()))
VALUES = {"home": HOME, "nowhere": None, "gone": "gone", "found": "found", "yes": True, "no": False}


def look_up(table: dict, kind: str, how: str, default=None):
    """The entry of `kind.how`, or else of `kind`, in a table of rules or patterns."""
    return (table.get(f"{kind}.{how}") if how else None) or table.get(kind, default)


class World:
    """What is known, in tables. `apply(event)` checks that the event can happen, and lets it.

    at     person or animal -> place          mood    person or animal -> word
    lies   thing -> holder, spot or box;      trait   person -> word
           None: nobody knows; "gone": eaten  near    person -> place that the house is near
    stands box -> spot                        owner   thing -> person
    open   box -> bool                        broken  thing -> bool
    looked (thing, spot) -> True: somebody looked, and it was not there
    sky    person -> the last change of weather that was told
    """

    TABLES = ("at", "lies", "stands", "open", "mood", "trait", "near", "owner", "broken", "looked", "sky")

    def __init__(self):
        for table in self.TABLES:
            setattr(self, table, {})

    def problem(self, event: Event) -> str:
        """Why this event cannot come next: the need that is not met, or "" if it can."""
        for need, roles in look_up(RULES, event.kind, event.how, ((), ()))[0]:
            about = [event[role] if role.__class__ is int else role for role in roles]
            if not NEEDS[need](self, *about):
                return f"{event}: not so: {need} {' '.join(map(str, about))}"
        return ""

    def apply(self, event: Event) -> None:
        """Let an event happen. Raises `Contradiction`, and changes nothing, if it cannot."""
        problem = self.problem(event)
        if problem:
            raise Contradiction(problem)
        for table, key, value in look_up(RULES, event.kind, event.how, ((), ()))[1]:
            if value.__class__ is int:
                value = event[value]
            elif value in VALUES:
                value = VALUES[value]
            else:  # "place", where a spot is, or "mood", without its cause
                value = event.where.place or event.where if value == "place" else event.how.split(".")[0]
            getattr(self, table)[event[key[0]] if len(key) == 1 else (event[key[0]], event[key[1]])] = value

    def is_at(self, who, where) -> bool:
        """At a place, a spot's or a box's place? Somebody at home is in every room of the house."""
        place = self.stands.get(where, where)
        place, here = place.place or place, self.at.get(who)
        return here is place or (here is HOME and place in INDOORS)

    def can_reach(self, who, thing) -> bool:
        """Does it lie at a spot, or in an open box, where `who` is?"""
        holder = self.lies.get(thing)
        if holder in self.stands and not self.open[holder]:
            return False
        return isinstance(holder, Entity) and holder.kind in ("spot", "box") and self.is_at(who, holder)


NEEDS = {  # whether it is so in a world, of what a rule asks about: roles, or a table
    "new": lambda world, table, key: key not in getattr(world, table),
    "at": World.is_at,
    "home": lambda world, who: world.at.get(who) is HOME,
    "lives": lambda world, who, where: world.near.get(who) is where,
    "away": lambda world, who, place: who in world.at and world.at[who] is not place,
    "together": lambda world, who, other: other in world.at and world.is_at(who, world.at[other]),
    "has": lambda world, who, thing: world.lies.get(thing) is who,
    "lacks": lambda world, who, thing: world.lies.get(thing) is not who,
    "owns": lambda world, who, thing: world.owner.get(thing) is who,
    "shared": lambda world, thing, who, other: world.lies.get(thing) in (who, other),
    "there": lambda world, thing, spot: world.lies.get(thing) is spot,
    "not_there": lambda world, thing, spot: world.lies.get(thing) is not spot,
    # maybe: it lies there, or nobody knows where it is and nobody has looked there
    "maybe": lambda world, thing, spot: world.lies.get(thing) in (None, spot) and (thing, spot) not in world.looked,
    "lost": lambda world, thing: thing in world.lies and world.lies[thing] is None,
    "reach": World.can_reach,
    "opened": lambda world, box: world.open.get(box) is True,
    "closed": lambda world, box: world.open.get(box) is False,
    "whole": lambda world, thing: not world.broken.get(thing),
    "broken": lambda world, thing: world.broken.get(thing) is True,
    "known": lambda world, who, trait: trait == "good" or world.trait.get(who) == trait,
    "likes": lambda world, animal, food: LIKES.get(animal.name, ("",))[0] == food.name,
    "stored": lambda world, food, spot: LARDER.get(food.name) is spot,
}

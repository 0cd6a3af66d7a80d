"""The state of the story world: what a reader who has understood every sentence so far knows.

Nothing is true here unless a sentence told it. Every kind of event has a rule (`rules.toml`): what must be so before,
and what it changes. So a story cannot contradict itself; and a task that needs a *wrong* sentence can ask the world
whether it is one.
"""

from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import NamedTuple

from minigpt.data.stories.words import HOME, INDOORS, LARDER, LIKES, Entity
from minigpt.files.disk import read_toml


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
        roles = []
        for role, value in self._asdict().items():
            if value and role != "kind":
                roles.append(f"{role}={value}")
        return f"{self.kind}({', '.join(roles)})"


ROLES = Event._fields[1:]


class Contradiction(Exception):
    """An event that cannot happen after what was told."""


class Need(NamedTuple):
    """One need of a rule: the name of a function in `NEEDS`, and what it is about: roles of the event, or a table."""

    name: str
    about: tuple[str, ...]


class Change(NamedTuple):
    """One change of a rule: the entry of a table, whose key is one role of the event or two, gets a value.

    The value is a role, or one of `VALUES`, or "place" or "mood".
    """

    table: str
    key: tuple[str, ...]
    value: str


class Rule(NamedTuple):
    """What must be so before an event of some kind, and what the event changes."""

    needs: tuple[Need, ...] = ()
    changes: tuple[Change, ...] = ()


def _need(text: str) -> Need:
    """Read a need: "at who where"."""
    name, *about = text.split()
    return Need(name, tuple(about))


def _change(text: str) -> Change:
    """Read a change: "at who = where"."""
    entry, value = text.split(" = ")
    table, *key = entry.split()
    return Change(table, tuple(key), value)


def _read_rules(path: Path) -> dict[str, Rule]:
    """{kind of event: its rule}"""
    rules = {}
    for kinds, halves in read_toml(path).items():
        needs = tuple(_need(text) for text in halves.get("needs", ()))
        changes = tuple(_change(text) for text in halves.get("changes", ()))
        for kind in kinds.split(", "):
            rules[kind] = Rule(needs, changes)
    return rules


RULES = _read_rules(Path(__file__).with_name("rules.toml"))
NO_RULE = Rule()
STAGES = (
    "planted", "dug", "sprouting", "flowering", "built", "melted", "sailing", "lit", "dark", "painted", "spoiled",
    "three", "two", "one", "none", "cooking", "cooked", "loose", "out", "racing", "first",
)  # fmt: skip
VALUES = {"home": HOME, "nowhere": None, "gone": "gone", "found": "found", "yes": True, "no": False}
VALUES |= {stage: stage for stage in STAGES}


def look_up(table: dict, kind: str, how: str, default=None):
    """The entry of `kind.how`, or else of `kind`, in a table of rules or patterns; `default` where there is neither."""
    if how:
        found = table.get(f"{kind}.{how}")
        if found:
            return found
    return table.get(kind, default)


def _table():
    """A field that begins as an empty dictionary."""
    return field(default_factory=dict)


@dataclass
class World:
    """What is known, in tables. `apply(event)` checks that the event can happen, and lets it."""

    at: dict = _table()  # person or animal -> place
    lies: dict = _table()  # thing -> holder, spot or box; None: it is lost; "gone": it was eaten
    stands: dict = _table()  # box -> spot
    open: dict = _table()  # box -> bool
    mood: dict = _table()  # person or animal -> word
    trait: dict = _table()  # person -> word
    near: dict = _table()  # person -> place that the house is near
    owner: dict = _table()  # thing -> person
    broken: dict = _table()  # thing -> bool
    looked: dict = _table()  # (thing, spot) -> True: somebody looked, and it was not there
    sky: dict = _table()  # person -> the last change of weather that was told
    stage: dict = _table()  # thing -> what has become of it: planted, melted, …; or how many pieces are left
    promised: dict = _table()  # (person, person) -> the place where the first has promised to be

    def problem(self, event: Event) -> str:
        """Why this event cannot come next: the need that is not met, or "" if it can."""
        rule = look_up(RULES, event.kind, event.how, NO_RULE)
        for need in rule.needs:
            about = [_subject(word, event) for word in need.about]
            if not NEEDS[need.name](self, *about):
                words = " ".join(map(str, about))
                return f"{event}: not so: {need.name} {words}"
        return ""

    def apply(self, event: Event) -> None:
        """Let an event happen. Raises `Contradiction`, and changes nothing, if it cannot."""
        problem = self.problem(event)
        if problem:
            raise Contradiction(problem)
        rule = look_up(RULES, event.kind, event.how, NO_RULE)
        for change in rule.changes:
            key = tuple(getattr(event, role) for role in change.key)
            if len(key) == 1:
                (key,) = key
            table = getattr(self, change.table)
            table[key] = _value(change.value, event)

    def is_at(self, who: Entity, where: Entity) -> bool:
        """At a place, a spot's or a box's place? Somebody at home is in every room of the house."""
        spot = self.stands.get(where, where)
        place = spot.place or spot
        here = self.at.get(who)
        return here is place or (here is HOME and place in INDOORS)

    def can_reach(self, who: Entity, thing: Entity) -> bool:
        """Does it lie at a spot, or in an open box, where `who` is?"""
        holder = self.lies.get(thing)
        if holder in self.stands and not self.open[holder]:
            return False
        if not isinstance(holder, Entity) or holder.kind not in ("spot", "box"):
            return False
        return self.is_at(who, holder)


TABLES = tuple(table.name for table in fields(World))


def _subject(word: str, event: Event):
    """What a word of a need stands for: a role's entity, the home, or itself: a table, a stage."""
    if word in ROLES:
        return getattr(event, word)
    return HOME if word == "home" else word


def _value(word: str, event: Event):
    """The value that a word of a rule stands for."""
    if word in ROLES:
        return getattr(event, word)
    if word in VALUES:
        return VALUES[word]
    if word == "place":  # where a spot is, or the place itself
        return event.where.place or event.where
    mood, _, _ = event.how.partition(".")  # without its cause
    return mood


# -------------------------------------------------------------------------------------------------------------- needs
# Each is a question about a world, named in rules.toml by the name of its function.


def new(world: World, table: str, key) -> bool:
    """Does the table tell nothing of it yet?"""
    return key not in getattr(world, table)


def at(world: World, who, where) -> bool:
    """Is `who` there?"""
    return world.is_at(who, where)


def home(world: World, who) -> bool:
    """Is `who` at home?"""
    return world.at.get(who) is HOME


def lives(world: World, who, where) -> bool:
    """Does the house stand near that place?"""
    return world.near.get(who) is where


def away(world: World, who, place) -> bool:
    """Is it known where `who` is, and is it another place?"""
    return who in world.at and world.at[who] is not place


def together(world: World, who, other) -> bool:
    """Are both at one place?"""
    return other in world.at and world.is_at(who, world.at[other])


def has(world: World, who, thing) -> bool:
    """Does `who` have it?"""
    return world.lies.get(thing) is who


def lacks(world: World, who, thing) -> bool:
    """Does `who` not have it?"""
    return world.lies.get(thing) is not who


def owns(world: World, who, thing) -> bool:
    """Does it belong to `who`?"""
    return world.owner.get(thing) is who


def shared(world: World, thing, who, other) -> bool:
    """Does one of the two have it?"""
    return world.lies.get(thing) in (who, other)


def there(world: World, thing, spot) -> bool:
    """Does it lie there?"""
    return world.lies.get(thing) is spot


def not_there(world: World, thing, spot) -> bool:
    """Does it not lie there?"""
    return world.lies.get(thing) is not spot


def maybe(world: World, thing, spot) -> bool:
    """Does it lie there; or is it unknown where it lies, and has it not been looked for there?"""
    return world.lies.get(thing) in (None, spot) and (thing, spot) not in world.looked


def lost(world: World, thing) -> bool:
    """Is it lost: did a story tell of it, and does it not tell where it is?"""
    return thing in world.lies and world.lies[thing] is None


def reach(world: World, who, thing) -> bool:
    """Can `who` take it?"""
    return world.can_reach(who, thing)


def opened(world: World, box) -> bool:
    """Is the box open?"""
    return world.open.get(box) is True


def closed(world: World, box) -> bool:
    """Is the box closed?"""
    return world.open.get(box) is False


def whole(world: World, thing) -> bool:
    """Is it not broken?"""
    return not world.broken.get(thing)


def broken(world: World, thing) -> bool:
    """Is it broken?"""
    return world.broken.get(thing) is True


def known(world: World, who, trait) -> bool:
    """Is `who` known for this trait? Everybody is good."""
    return trait == "good" or world.trait.get(who) == trait


def likes(world: World, animal, food) -> bool:
    """Is it the food of this animal?"""
    return animal.name in LIKES and LIKES[animal.name]["food"] == food.name


def stored(world: World, food, spot) -> bool:
    """Is this where the food is always found?"""
    return LARDER.get(food.name) is spot


def is_now(world: World, thing, stage) -> bool:
    """Has it come to this stage, and no further?"""
    return world.stage.get(thing) == stage


def has_promised(world: World, who, other) -> bool:
    """Has `who` promised the other to be somewhere?"""
    return (who, other) in world.promised


_QUESTIONS = (
    new, at, home, lives, away, together, has, lacks, owns, shared, there, not_there, maybe, lost, reach,
    opened, closed, whole, broken, known, likes, stored, is_now, has_promised,
)  # fmt: skip
NEEDS = {question.__name__: question for question in _QUESTIONS}

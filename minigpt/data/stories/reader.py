"""A strict reader of stories: each sentence must be one of this world, and must be able to happen after the others.

    >>> from minigpt.data.stories import reader, story
    >>> reader.faults(story(7).text)
    []

It is the teller turned round: a pattern is found in the text, and the words in its slots become entities. What
a sentence leaves unsaid is looked for among what is known. Where a sentence can mean several things, all readings stay
open until a later sentence decides. What the reader knows of an event (who can take part in it, with which event a
story begins and ends) it has seen in the first stories of seed 0.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field, fields, replace
from itertools import product

from minigpt.data.stories.seen import PEOPLE, Signature, signatures
from minigpt.data.stories.teller import VERBS_OF_SPEECH, Slot, capital, capitals_within
from minigpt.data.stories.templates import FREE_FORMS, SHAPES, Match, Template, matches, meant_by, templates
from minigpt.data.stories.words import HOME, Entity
from minigpt.data.stories.world import NO_RULE, RULES, TABLES, Event, World, look_up

MOST_READINGS = 60  # that are kept open at one place of a text


def faults(text: str) -> list[str]:
    """Every fault of a story, in plain words; an empty list for a story that this world could have told.

    A sentence with a fault is left out, and the reader goes on behind it. The stories of smaller worlds (varieties 1
    and 2) are told with fewer capitals, which are faults here.
    """
    found = []
    text = text.strip()
    if not text:
        return ["the story is empty"]
    open_at = {0: [Reading()]}  # place in the text -> the readings that have come so far
    while True:
        at = min(open_at)
        readings = open_at.pop(at)
        if at >= len(text):
            return found + _fault_of_the_end(readings)
        n_before = sum(map(len, open_at.values()))
        for end, reading in _next_sentences(text, at, readings):
            _keep(open_at.setdefault(end, []), reading)
        n_after = sum(map(len, open_at.values()))
        if n_after == 0 == n_before:
            sentence = _sentence_at(text, at)
            found.append(_explain(sentence, text[:at], readings))
            open_at[_skip_space(text, at + len(sentence))] = readings


# -------------------------------------------------------------------------------------------------------- one reading


@dataclass
class Reading:
    """One way to understand the text so far: the world, and who was named where."""

    world: World = field(default_factory=World)
    before: tuple[Entity, ...] = ()  # named in the sentence before
    now: tuple[Entity, ...] = ()  # named in this sentence
    known: frozenset[Entity] = frozenset()  # named in any sentence
    read: str = ""  # the text before this sentence
    last: str = ""  # the name of the last event

    def begin_sentence(self, read: str) -> "Reading":
        return replace(self, before=self.now, now=(), read=read)

    def names(self, entity: Entity) -> "Reading":
        return replace(self, now=(*self.now, entity), known=self.known | {entity})

    def after(self, name: str, event: Event) -> "Reading | None":
        """The reading after an event, or None where it cannot happen."""
        if self.problem(event):
            return None
        tables = {table.name: dict(getattr(self.world, table.name)) for table in fields(World)}
        world = World(**tables)
        world.apply(event)
        return replace(self, world=world, last=name)

    def problem(self, event: Event) -> str:
        """Why an event cannot happen, or ""."""
        try:
            return self.world.problem(event)
        except (AttributeError, KeyError):  # a role that the event needs is missing
            return f"{event}: somebody or something is missing"

    @property
    def key(self) -> tuple:
        """Equal for readings that cannot be told apart."""
        tables = tuple(frozenset(getattr(self.world, name).items()) for name in TABLES)
        return (*tables, self.now, self.known, self.last)


def _keep(readings: list[Reading], one: Reading) -> None:
    """Keep a reading, if it is new and there is room."""
    if len(readings) < MOST_READINGS and all(one.key != other.key for other in readings):
        readings.append(one)


def _next_sentences(text: str, at: int, readings: list[Reading]) -> Iterator[tuple[int, Reading]]:
    """Every (place behind a sentence, reading) that a sentence at this place can lead to."""
    small = text.lower()
    firsts, _ = templates()
    for template in firsts:
        if at == 0 and not signatures()[template.name].begins:
            continue
        for match in matches(template.parts, small, at):
            if _is_end(text, match.end):
                for reading in readings:
                    for after, _ in _understood(template, match, text, at, reading.begin_sentence(text[:at])):
                        yield _skip_space(text, match.end), after
        if template.goes_on:
            yield from _two_verbs(template, text, at, readings)


def _two_verbs(template: Template, text: str, at: int, readings: list[Reading]) -> Iterator[tuple[int, Reading]]:
    """The same for sentences such as "Tom went home and slept"."""
    small = text.lower()
    _, seconds = templates()
    begun = template.begun
    for first in matches(begun.parts, small, at):
        if not text.startswith(" and ", first.end):
            continue
        for second in seconds:
            for match in matches(second.parts, small, first.end):
                if not _is_end(text, match.end):
                    continue
                for reading in readings:
                    for half, who in _understood(begun, first, text, at, reading.begin_sentence(text[:at])):
                        for after, _ in _understood(second, match, text, first.end, half, who):
                            yield _skip_space(text, match.end), after


def _is_end(text: str, at: int) -> bool:
    return at == len(text) or text[at] == " "


def _understood(
    template: Template, match: Match, text: str, at: int, reading: Reading, who: Entity | None = None
) -> Iterator[tuple[Reading, Entity]]:
    """Every (reading after the event, who did it) for a sentence that has the form of a template."""
    given = {"who": who} if who else {}
    for roles, told in _fill(template, match.words, 0, given, reading):
        if not _has_its_capitals(template, match, text[at : match.end], roles):
            continue
        for event in _events(template.name, roles, told):
            after = told.after(template.name, event)
            if after:
                yield after, event.who


def _fill(template, groups, i, roles, reading) -> Iterator[tuple[dict, Reading]]:
    """Give each slot from number i on an entity: (roles, reading in which they are named)."""
    if i == len(template.slots):
        yield roles, reading
        return
    slot = template.slots[i]
    word = groups[i]
    signature = signatures()[template.name]
    if slot.role == "how":
        if word in signature.hows and roles.get("how", word) == word:
            yield from _fill(template, groups, i + 1, roles | {"how": word}, reading)
        return
    candidates = (roles[slot.role],) if slot.role in roles else meant_by(word, slot.form)
    for entity in candidates:
        may_be_new = slot.role in signature.introduces or entity.name in reading.read
        if may_be_new and entity.kind in signature.kinds(slot.role) and _fits(entity, slot, word, reading):
            yield from _fill(template, groups, i + 1, roles | {slot.role: entity}, reading.names(entity))


def _fits(entity: Entity, slot: Slot, word: str, reading: Reading) -> bool:
    """Would the teller have used this word for the entity, at this place? See `Teller._fitting_form`."""
    verb = slot.form if slot.form in VERBS_OF_SPEECH else ""
    if slot.form not in FREE_FORMS:
        return entity.forms.get(slot.form, "").lower() == word
    named = (*reading.before, *reading.now)
    is_subject = verb or slot.role == "who" or slot.form == "sub"
    pronoun = entity.forms.get("he" if is_subject else "him")
    if word == (f"{pronoun} {verb}" if verb else pronoun):
        return entity in named and all(other is entity or other.gender != entity.gender for other in named)
    word = word.removeprefix(f"{verb} ")
    if entity not in reading.known and entity.kind != "person":
        return word == entity.forms["a"].lower()
    if entity in named and word == entity.forms["short"].lower():
        return True
    return word == entity.forms["the"].lower()


def _events(name: str, roles: dict, reading: Reading) -> Iterator[Event]:
    """Every event that a sentence can tell: what it does not say is something that is known, or nothing."""
    kind, _, how = name.partition(".")
    signature = signatures()[name]
    hows = [roles["how"]] if "how" in roles else [how] if how else sorted(signature.hows)
    options = []
    for role in PEOPLE:
        if role in roles:
            options.append([roles[role]])
        elif _matters(kind, signature.hows, role):
            options.append(_unsaid(signature, role, reading))
        else:
            options.append([None])
    for how, *entities in product(hows, *options):
        players = [entity for entity in entities if entity]
        if len(set(players)) == len(players):  # one cannot give a thing to oneself
            yield Event(kind, *entities, how)  # type: ignore[call-arg]  # one for each of PEOPLE


def _matters(kind: str, hows: set[str], role: str) -> bool:
    """Does the rule of such an event speak of this role?"""
    for how in hows:
        rule = look_up(RULES, kind, how, NO_RULE)
        if any(role in need.about for need in rule.needs):
            return True
        if any(role in (*change.key, change.value) for change in rule.changes):
            return True
        if role == "where" and any(change.value == "place" for change in rule.changes):
            return True
    return False


def _unsaid(signature: Signature, role: str, reading: Reading) -> list[Entity | None]:
    """What can play a role that a sentence does not name: the only one that ever does, or what is known."""
    players = signature.players[role]
    if len(players) == 1:
        return list(players)
    kinds = signature.kinds(role)
    near = {HOME, *reading.known, *reading.world.at.values()}
    near |= {entity.place for entity in near if entity and entity.place}
    found: list[Entity | None] = [entity for entity in near if entity and entity.kind in kinds]
    found.sort(key=lambda entity: entity.forms["the"])
    return [*found, None] if None in kinds or not found else found


def _has_its_capitals(template: Template, match: Match, shown: str, roles: dict) -> bool:
    """Are capital letters where the teller writes them?"""
    told = ""
    words_found = iter(match.words)
    for part in template.parts:
        told += part if isinstance(part, str) else _canonical(next(words_found), part, roles)
    if told.startswith(" and"):
        return shown == told
    return shown == capitals_within(capital(told))


def _canonical(word: str, slot: Slot, roles: dict) -> str:
    """The word with the capitals of the entity's own forms."""
    if slot.role == "how":
        return word
    forms = roles[slot.role].forms
    if slot.form not in FREE_FORMS:
        return forms[slot.form]
    bare = word.removeprefix(f"{slot.form} ").removesuffix(f" {slot.form}") if slot.form else word
    for shape in SHAPES:
        if forms.get(shape, "").lower() == bare:
            return word.replace(bare, forms[shape])
    return word


# --------------------------------------------------------------------------------------------------------- what is said


def _skip_space(text: str, at: int) -> int:
    while at < len(text) and text[at] == " ":
        at += 1
    return at


def _sentence_at(text: str, at: int) -> str:
    """From here to the next end of a sentence."""
    match = re.compile(r'.*?[.!?]"?(?= |$)', re.DOTALL).match(text, at)
    return match.group() if match else text[at:]


def _fault_of_the_end(readings: list[Reading]) -> list[str]:
    """A story must end with an event with which stories end."""
    last = [reading.last for reading in readings if reading.last]
    if last and not any(signatures()[name].ends for name in last):
        return ["the story has no end"]
    return []


def _explain(sentence: str, read: str, readings: list[Reading]) -> str:
    """Why a sentence cannot stand behind the text that was read."""
    if sentence[-1] not in '.!?"':
        return f"it stops in the middle of a sentence: {sentence}"
    alike = list(_alike(sentence))
    for template, match in alike:
        for reading in readings:
            problem = _problem(template, match, reading.begin_sentence(read))
            if problem:
                return f"{sentence} {problem}"
    if alike or _has_two_verbs(sentence):
        return f"it is not clear who or what is meant: {sentence}"
    return f"no sentence of this world: {sentence}"


def _alike(sentence: str) -> Iterator[tuple[Template, Match]]:
    """The templates that a sentence follows, whatever its capitals."""
    firsts, _ = templates()
    for template in firsts:
        for match in matches(template.parts, sentence.lower(), 0):
            if match.end == len(sentence):
                yield template, match


def _has_two_verbs(sentence: str) -> bool:
    """Is it a sentence with a second verb, as "Tom went home and slept"?"""
    small = sentence.lower()
    firsts, seconds = templates()
    for template in firsts:
        if not template.goes_on:
            continue
        for first in matches(template.begun.parts, small, 0):
            for second in seconds:
                if any(match.end == len(small) for match in matches(second.parts, small, first.end)):
                    return True
    return False


def _problem(template: Template, match: Match, reading: Reading) -> str:
    """What is wrong, in the words of the rule; "" where no entity fits."""
    for roles, told in _fill(template, match.words, 0, {}, reading):
        for event in _events(template.name, roles, told):
            problem = told.problem(event)
            if problem:
                return problem.partition(": ")[2]
            return "a capital letter is missing, or there is one too many"
    return ""

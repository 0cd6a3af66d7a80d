"""What the stories show of each kind of event: who can play its roles, and where in a story it stands."""

from collections import defaultdict
from dataclasses import dataclass, field
from functools import cache

from minigpt.data.stories import words
from minigpt.data.stories.teller import PATTERNS
from minigpt.data.stories.words import Entity
from minigpt.data.stories.world import ROLES, Event

STORIES_SEEN = 4000  # the first ones of seed 0
PEOPLE = ROLES[:4]  # the roles that an entity plays; the fifth is `how`


@dataclass
class Signature:
    """What the first stories show of a kind of event: who plays each role (None: it is not played), and its `how`s."""

    players: dict[str, set] = field(default_factory=lambda: defaultdict(set))
    hows: set[str] = field(default_factory=set)
    introduces: set[str] = field(default_factory=set)  # the roles of those who were not named before
    begins: bool = False
    ends: bool = False

    def kinds(self, role: str) -> set:
        """The kinds of entity that play a role."""
        return {player and player.kind for player in self.players[role]}


@cache
def signatures() -> dict[str, Signature]:
    """{the name of a list of patterns: the signature of its events}"""
    from minigpt.data.stories import story

    found: dict[str, Signature] = defaultdict(Signature)
    for i in range(STORIES_SEEN):
        seen = story(i)
        read = ""
        for sentence in seen.sentences:
            for event in sentence.events:
                signature = found[name_of(event)]
                signature.hows.add(event.how)
                _note_players(signature, event, read)
            read += f" {sentence.text}"
        found[name_of(seen.events[0])].begins = True
        found[name_of(seen.events[-1])].ends = True
    return dict(found)


def _note_players(signature: Signature, event: Event, read: str) -> None:
    """Note who plays which role, and who of them was not named in the text that was read before."""
    for role in PEOPLE:
        player = getattr(event, role)
        signature.players[role].add(player)
        if player and player.name not in read:
            signature.introduces.add(role)


def name_of(event: Event) -> str:
    """The name of the list of patterns that tells an event: `kind.how`, or `kind`."""
    full = f"{event.kind}.{event.how}"
    return full if full in PATTERNS else event.kind


@cache
def entities() -> tuple[Entity, ...]:
    """Everybody and everything that has a name in this world."""
    found = {}
    for value in vars(words).values():
        _collect(value, found)
    return tuple(found)


def _collect(value, found: dict[Entity, None]) -> None:
    if isinstance(value, Entity):
        found[value] = None
    elif isinstance(value, dict):
        for key, inner in value.items():
            _collect(key, found)
            _collect(inner, found)
    elif isinstance(value, (tuple, list)):
        for inner in value:
            _collect(inner, found)

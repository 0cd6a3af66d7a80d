"""The words of the story world, made of `words.txt`: who and what there is, where things can lie, and who likes what.

Every entity is made once, here, and is compared by identity. Each knows the forms in which a sentence may need it.
"""

from dataclasses import dataclass, field

from minigpt.files import sections

_WORDS = sections.read(__file__, "words.txt")


def _list(heading: str) -> tuple[str, ...]:
    return tuple(word for line in _WORDS[heading] for word in line.split(", "))


def _table(heading: str) -> list[tuple[str, tuple[str, ...]]]:
    """(key, words) of each line below a heading."""
    return [(key, tuple(words.split(", "))) for key, words in (line.split(": ") for line in _WORDS[heading])]


_SHAPES = ("he", "him", "his", "girl")
PRONOUNS = {gender: dict(zip(_SHAPES, words, strict=False)) for gender, words in _table("pronouns")} | {"": {}}


@dataclass(frozen=True, eq=False, slots=True, repr=False)
class Entity:
    """A person, animal, thing, box, food, place or spot (a spot belongs to a place: the bench is in the park)."""

    kind: str
    name: str  # the last word of it: Mia, dog, ball, garden, bench
    gender: str = "n"  # f, m, n, or "" for what no pronoun stands for: places, spots
    look: str = ""  # a colour or an adjective: red, little
    article: str = "a"  # "a", "an" or "some" before the whole phrase
    preposition: str = ""  # of places and spots: in the park, on the bench
    place: "Entity | None" = None  # of spots
    forms: dict = field(default_factory=dict)

    def __repr__(self) -> str:
        return self.forms["the"]


def _entity(kind, name, **details) -> Entity:
    """Make an entity and its forms: the, short, a, bare, at, and the pronouns of its gender."""
    made = Entity(kind, name, **details)
    bare = f"{made.look} {name}".strip()
    the = name if name[0].isupper() else f"the {bare}"
    made.forms.update(PRONOUNS[made.gender], the=the, bare=bare, a=f"{made.article} {bare}", name=name,
                      short=name if name[0].isupper() else f"the {name}", at=f"{made.preposition} the {name}")
    if made.place:  # "under the bench" is "in the park"
        made.forms["in"] = made.place.forms["at"]
    made.forms["any"] = f"any {name}" if made.article == "some" else made.forms["a"]
    return made


GIRLS, BOYS, MOTHERS, FATHERS, (FARMER, TEACHER), (BAKER, OLD_WOMAN) = (
    tuple(_entity("person", name, gender=gender) for name in names) for gender, names in _table("people"))
CHILDREN = GIRLS + BOYS
FRIENDS = dict(zip(CHILDREN, BOYS + GIRLS, strict=True))  # each child has one best friend, always the same
FAMILY = MOTHERS + FATHERS
WORKERS = (FARMER, TEACHER, BAKER, OLD_WOMAN)
MOTHER, GRANDMA, FATHER, GRANDPA = FAMILY

TRAITS, MEAN, FAIR, COLOURS, SIZES = map(_list, ("traits", "mean", "fair", "colours", "sizes"))


def _located(kind, phrase, place=None) -> Entity:
    """("spot", "under bed", the bedroom) -> the spot under the bed."""
    preposition, name = phrase.split(" ", 1)
    return _entity(kind, name, gender="", preposition=preposition, place=place)


PLACES, SPOTS = {}, {}
for _phrase, _spots in _table("places"):
    _place = _located("place", _phrase)
    PLACES[_place.name], SPOTS[_place] = _place, tuple(_located("spot", spot, _place) for spot in _spots)
HIDING = {place: tuple(spot for spot in spots if spot.preposition in _list("good to hide"))
          for place, spots in SPOTS.items()}
HOME = _located("place", "at home")
HOME.forms.update(the="home", at="at home", short="home")
INDOORS, NEAR_HOUSES = (tuple(PLACES[name] for name in _list(heading)) for heading in ("indoors", "near houses"))
OUTDOORS = tuple(place for place in PLACES.values() if place not in INDOORS)


def _things(kind, names, looks) -> dict:
    """{name: one entity for each look}. Each name begins with another look: the red ball, the blue kite, …"""
    turned = {name: looks[i % len(looks):] + looks[:i % len(looks)] for i, name in enumerate(names)}
    return {name: tuple(_entity(kind, name, look=look) for look in looks) for name, looks in turned.items()}


def _some(things: dict, heading: str) -> dict:
    return {name: things[name] for name in _list(heading)}


TOYS = _things("thing", _list("toys"), COLOURS)
BREAKABLE = _some(TOYS, "breakable")
LIGHT = _things("thing", _list("light"), COLOURS) | {"kite": TOYS["kite"]}
WARM = _some(LIGHT, "warm")
OWN = dict(_table("own"))
TREASURES = _things("thing", _list("treasures"), _list("metals"))
BOXES = _things("box", _list("boxes"), _list("kinds of box"))
KEY = _entity("thing", "key", look="small")
LADDER = _entity("thing", "ladder", look="long")
LIKES = dict(_table("likes"))
ANIMALS = _things("animal", LIKES, SIZES)
SMALL_ANIMALS = _things("animal", _list("small animals"), SIZES)
SEEN = _some(ANIMALS, "seen") | {"bird": SMALL_ANIMALS["bird"]}


def _foods(heading) -> dict:
    split = (phrase.split() for phrase in _list(heading))
    return {name: _entity("food", name, article=article) for article, name in split}


def _spot(place: str, spot: str) -> Entity:
    """("garden", "behind fence") -> the spot behind the fence."""
    return next(one for one in SPOTS[PLACES[place]] if f"{one.preposition} {one.name}" == spot)


FOODS, DISH = _foods("foods"), _foods("dish")
LARDER = {food: _spot(*where) for food, where in _table("larder")}
DISHES = dict(_table("dishes"))
PLANS = dict(_table("plans"))

"""The words of the story world: who and what there is, where things can lie, and who likes what.

Every entity is made once, here, and is compared by identity. Each knows the forms in which a sentence may need it.
"""

from dataclasses import dataclass, field

PRONOUNS = {
    "f": {"he": "she", "him": "her", "his": "her", "girl": "girl"},
    "m": {"he": "he", "him": "him", "his": "his", "girl": "boy"},
    "n": {"he": "it", "him": "it", "his": "its"},
    "": {},
}


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


def _named(kind, gender, names) -> tuple:
    return tuple(_entity(kind, name, gender=gender) for name in names.split(", "))


GIRLS = _named("person", "f", "Mia, Lily, Anna")
BOYS = _named("person", "m", "Tom, Ben, Max")
CHILDREN = GIRLS + BOYS
FRIENDS = dict(zip(CHILDREN, BOYS + GIRLS, strict=True))  # each child has one best friend, always the same
FAMILY = _named("person", "f", "Mother, Grandma") + _named("person", "m", "Father, Grandpa")
WORKERS = _named("person", "m", "farmer, teacher") + _named("person", "f", "baker, old woman")
FARMER, TEACHER, BAKER, OLD_WOMAN = WORKERS
MOTHER, GRANDMA, FATHER, GRANDPA = FAMILY

TRAITS = tuple("kind brave clever quiet cheerful curious gentle funny".split())
MEAN = ("greedy", "selfish")  # they do not like to share
FAIR = ("sunny", "warm", "cloudy", "quiet", "cold")
COLOURS = tuple("red blue green yellow white black pink brown".split())


def _places(table) -> dict:
    """Lines of `preposition place: preposition spot, preposition spot, …` -> {place name: (place, spots)}."""
    world = {}
    for line in table.strip().splitlines():
        where, spots = line.strip().split(": ")
        preposition, name = where.split(" ", 1)
        place = _entity("place", name, gender="", preposition=preposition)
        world[name] = place, tuple(
            _entity("spot", noun, gender="", preposition=before, place=place)
            for before, noun in (spot.split(" ", 1) for spot in spots.split(", ")))
    return world


# The same noun never stands in two places: to know the bench is to know the park.
_WORLD = _places("""
    in bedroom: under bed, on shelf, behind door
    in kitchen: on table, under table, beside stove
    in garden: beside well, behind fence, among flowers
    in park: on bench, under bench, beside swing
    in forest: under old tree, behind big rock
    at lake: in small boat, among reeds
    at river: under bridge, on bridge
    in barn: in straw, behind cart
    on hill: in tall grass, beside tower
    at market: beside fountain, on stall, under stall
    at school: on desk, under desk, behind gate
    on beach: in sand, behind dune
""")
PLACES = {name: place for name, (place, _) in _WORLD.items()}
SPOTS = dict(_WORLD.values())
HIDING = {place: tuple(spot for spot in spots if spot.preposition in ("behind", "under", "among", "in"))
          for place, spots in SPOTS.items()}
HOME = _entity("place", "home", gender="", preposition="at")
HOME.forms.update(the="home", at="at home", short="home")
INDOORS = (PLACES["bedroom"], PLACES["kitchen"])
OUTDOORS = tuple(place for place in PLACES.values() if place not in INDOORS)
NEAR_HOUSES = tuple(PLACES[name] for name in "forest lake river hill park beach market school".split())


def _things(kind, names, looks) -> dict:
    """{name: one entity for each look}. Each name begins with another look: the red ball, the blue kite, …"""
    turned = {name: looks[i % len(looks):] + looks[:i % len(looks)] for i, name in enumerate(names.split())}
    return {name: tuple(_entity(kind, name, look=look) for look in looks) for name, looks in turned.items()}


TOYS = _things("thing", "ball kite doll drum train ship car puppet", COLOURS)
LIGHT = _things("thing", "hat scarf feather balloon", COLOURS) | {"kite": TOYS["kite"]}  # the wind can take them
WARM = {name: LIGHT[name] for name in ("hat", "scarf")}
OWN = {"f": "ball doll train ship hat feather".split(), "m": "kite drum car puppet scarf balloon".split()}
TREASURES = _things("thing", "ring crown bell coin star lamp", ("silver", "golden"))
BREAKABLE = {name: TOYS[name] for name in ("kite", "doll", "drum", "train", "ship", "car")}
BOXES = _things("box", "box chest basket bag", ("brown", "green", "white", "big", "small", "wooden"))
KEY = _entity("thing", "key", look="small")
LADDER = _entity("thing", "ladder", look="long")


def _foods(phrases) -> dict:
    split = (phrase.split() for phrase in phrases.split(", "))
    return {name: _entity("food", name, article=article) for article, name in split}


FOODS = _foods("a carrot, an apple, a bone, a fish, a nut, some cheese, some honey, some bread, some hay, some milk, "
               "an egg, a pear, a lemon, some flour, a cookie")
DISH = _foods("a cake, a pie, some bread, some soup")
LIKES = {  # animal: what it eats, and where it is seen
    "dog": ("bone", "park garden hill"), "cat": ("fish", "garden river hill"), "rabbit": ("carrot", "forest hill park"),
    "mouse": ("cheese", "barn school garden"), "bear": ("honey", "forest river"), "duck": ("bread", "lake river park"),
    "horse": ("apple", "barn hill"), "goat": ("hay", "hill park"), "squirrel": ("nut", "park garden"),
}
SIZES = ("little", "brown", "white", "grey")
ANIMALS = _things("animal", " ".join(LIKES), SIZES)
SMALL_ANIMALS = _things("animal", "kitten bird", SIZES)


def _spot(text: str) -> Entity:
    """`garden: behind fence` -> the spot behind the fence."""
    place, spot = text.split(": ")
    return next(one for one in SPOTS[PLACES[place]] if f"{one.preposition} {one.name}" == spot)


SEEN = {name: ANIMALS[name] for name in ("cat", "rabbit", "mouse", "horse", "squirrel")}
SEEN["bird"] = SMALL_ANIMALS["bird"]
LARDER = {  # where a food is found
    "carrot": _spot("garden: behind fence"), "apple": _spot("market: on stall"), "bone": _spot("kitchen: under table"),
    "fish": _spot("market: on stall"), "nut": _spot("forest: under old tree"), "cheese": _spot("kitchen: on table"),
    "honey": _spot("kitchen: on table"), "bread": _spot("kitchen: on table"), "hay": _spot("barn: behind cart"),
    "milk": _spot("barn: behind cart"), "egg": _spot("barn: in straw"), "flour": _spot("kitchen: beside stove"),
}
DISHES = {  # what can be made, and from which two things
    "cake": ("egg", "milk"), "pie": ("apple", "flour"), "bread": ("flour", "milk"), "soup": ("carrot", "fish"),
}

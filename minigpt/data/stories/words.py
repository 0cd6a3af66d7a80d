"""The words of the story world, made of `words.toml`: who and what there is, where things can lie, and who likes what.

Every entity is made once, here, and is compared by identity. Each knows the forms in which a sentence may need it.
"""

from dataclasses import dataclass, field
from pathlib import Path

from minigpt.files.disk import read_toml

_WORDS = read_toml(Path(__file__).with_name("words.toml"))

PRONOUNS = {**_WORDS["pronouns"], "": {}}  # {gender: {form: word}}


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
    forms: dict[str, str] = field(default_factory=dict)  # {form: the words of it}

    def __repr__(self) -> str:
        return self.forms["the"]


def _entity(kind: str, name: str, **details) -> Entity:
    """Make an entity and its forms: the, short, a, any, bare, name, at, in, and the pronouns of its gender."""
    entity = Entity(kind, name, **details)
    bare = f"{entity.look} {name}".strip()
    is_name = name[0].isupper()  # Mia, not "the Mia"
    forms = entity.forms
    forms.update(PRONOUNS[entity.gender])
    forms["name"] = name
    forms["bare"] = bare
    forms["the"] = name if is_name else f"the {bare}"
    forms["The"] = name if is_name else f"The {bare}"
    forms["short"] = name if is_name else f"the {name}"
    forms["a"] = f"{entity.article} {bare}"
    forms["any"] = f"any {name}" if entity.article == "some" else forms["a"]
    forms["at"] = f"{entity.preposition} the {name}"
    if entity.place:  # "under the bench" is "in the park"
        forms["in"] = entity.place.forms["at"]
    return entity


# ------------------------------------------------------------------------------------------------------------- people


def _people(group: str, gender: str) -> tuple[Entity, ...]:
    names = _WORDS["people"][group]
    return tuple(_entity("person", name, gender=gender) for name in names)


GIRLS = _people("girls", "f")
BOYS = _people("boys", "m")
CHILDREN = GIRLS + BOYS
FRIENDS = dict(zip(CHILDREN, BOYS + GIRLS, strict=True))  # each child has one best friend, always the same

MOTHER, GRANDMA = _people("mothers", "f")
FATHER, GRANDPA = _people("fathers", "m")
FAMILY = (MOTHER, GRANDMA, FATHER, GRANDPA)

FARMER, TEACHER = _people("men", "m")
BAKER, OLD_WOMAN = _people("women", "f")
WORKERS = (FARMER, TEACHER, BAKER, OLD_WOMAN)
POSTMAN, FISHERMAN = _people("more_men", "m")
DOCTOR, PAINTER = _people("more_women", "f")
TRADERS = (*WORKERS, POSTMAN, FISHERMAN, DOCTOR, PAINTER)

TRAITS = tuple(_WORDS["traits"])
MEAN = tuple(_WORDS["mean"])  # traits of those who do not like to share
FAIR = tuple(_WORDS["fair"])  # how a fine day can be
COLOURS = tuple(_WORDS["colours"])

# ------------------------------------------------------------------------------------------------------------- places


def _located(kind: str, phrase: str, place: Entity | None = None) -> Entity:
    """("spot", "under bed", the bedroom) -> the spot under the bed."""
    preposition, name = phrase.split(" ", 1)
    return _entity(kind, name, gender="", preposition=preposition, place=place)


PLACES: dict[str, Entity] = {}  # by name
SPOTS: dict[Entity, tuple[Entity, ...]] = {}  # of each place
HIDING: dict[Entity, tuple[Entity, ...]] = {}  # those of them where one can hide
_SPOT_OF: dict[tuple[str, str], Entity] = {}  # ("garden", "behind fence") -> the spot behind the fence

for _phrase, _spot_phrases in _WORDS["places"].items():
    _place = _located("place", _phrase)
    PLACES[_place.name] = _place
    SPOTS[_place] = ()
    HIDING[_place] = ()
    for _spot_phrase in _spot_phrases:
        _spot = _located("spot", _spot_phrase, _place)
        _SPOT_OF[_place.name, _spot_phrase] = _spot
        SPOTS[_place] += (_spot,)
        if _spot.preposition in _WORDS["good_to_hide"]:
            HIDING[_place] += (_spot,)

HOME = _located("place", "at home")
HOME.forms.update(the="home", at="at home", short="home")


def _some_places(key: str) -> tuple[Entity, ...]:
    return tuple(PLACES[name] for name in _WORDS[key])


INDOORS = _some_places("indoors")
NEAR_HOUSES = _some_places("near_houses")
OUTDOORS = tuple(place for place in PLACES.values() if place not in INDOORS)

# ------------------------------------------------------------------------------------------------- things and animals

Looks = dict[str, tuple[Entity, ...]]  # {name: one entity for each look}


def _with_looks(kind: str, key: str, looks_key: str) -> Looks:
    """One entity for each name and look in two lists of `words.toml`.

    Each name begins with another look: the red ball, the blue kite, …
    """
    looks = _WORDS[looks_key]
    entities = {}
    for i, name in enumerate(_WORDS[key]):
        start = i % len(looks)
        turned = looks[start:] + looks[:start]
        entities[name] = tuple(_entity(kind, name, look=look) for look in turned)
    return entities


def _some(entities: Looks, key: str) -> Looks:
    """Those whose names are in a list of `words.toml`."""
    return {name: entities[name] for name in _WORDS[key]}


TOYS = _with_looks("thing", "toys", "colours")
BREAKABLE = _some(TOYS, "breakable")
LIGHT = _with_looks("thing", "light", "colours")  # what the wind can take
LIGHT["kite"] = TOYS["kite"]
WARM = _some(LIGHT, "warm")
OWN = _WORDS["own"]  # {gender: the names of the things that such children have of their own}
TREASURES = _with_looks("thing", "treasures", "metals")
BOXES = _with_looks("box", "boxes", "kinds_of_box")
KEY = _entity("thing", "key", look="small")
LADDER = _entity("thing", "ladder", look="long")
SEED = _entity("thing", "seed", look="tiny")
SUNFLOWER = _entity("thing", "sunflower", look="tall")
SNOWMAN = _entity("thing", "snowman", look="big")
RAFT = _entity("thing", "raft", look="wooden")
LETTER = _entity("thing", "letter", look="white")
LANTERN = _entity("thing", "lantern", look="small")
MAP = _entity("thing", "map", look="old", article="an")
TOOTH = _entity("thing", "tooth", look="white")
PICTURE = _entity("thing", "picture", look="big")
STONE = _entity("thing", "stone", look="round")
SWAPS = _with_looks("thing", "swaps", "colours")
RUBBISH = tuple(_entity("thing", name, look="old", article="an") for name in _WORDS["rubbish"])

LIKES = _WORDS["likes"]  # {animal: its "food", the "places" where it is seen}
ANIMALS = _with_looks("animal", "likes", "sizes")
SMALL_ANIMALS = _with_looks("animal", "small_animals", "sizes")
SEEN = _some(ANIMALS, "seen")  # on the way
SEEN["bird"] = SMALL_ANIMALS["bird"]
QUICK = _some(ANIMALS, "quick")
SLOW = _with_looks("animal", "slow", "sizes")
MAGPIE = _entity("animal", "magpie", look="black")
OWL = _entity("animal", "owl", look="old", article="an")

# --------------------------------------------------------------------------------------------------------------- food


def _foods(key: str) -> dict[str, Entity]:
    """{name: the food} of a list such as `["a carrot", "some cheese"]`."""
    foods = {}
    for phrase in _WORDS[key]:
        article, name = phrase.split()
        foods[name] = _entity("food", name, article=article)
    return foods


FOODS = _foods("foods")
DISHES = _foods("dishes")
RECIPES = _WORDS["recipes"]  # {dish: the names of the two foods that it is made of}
LARDER: dict[str, Entity] = {}  # {food: the spot where it is always found}
for _food, _where in _WORDS["larder"].items():
    LARDER[_food] = _SPOT_OF[_where["place"], _where["spot"]]
PLANS = _WORDS["plans"]  # {plan: its "places", the weather that it is "prevented_by" and "allowed_by"}

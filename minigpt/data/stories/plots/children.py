"""Plots about what children promise, paint, find out and get wrong."""

from minigpt.data.stories import words as w
from minigpt.data.stories.teller import Teller
from minigpt.data.stories.words import HOME, PLACES, Entity

HILL, MARKET = PLACES["hill"], PLACES["market"]
FIRM = ("small boat", "desk", "stall")  # where one cannot dig


def _ground(t: Teller, place: Entity) -> Entity:
    """A spot in that place where one can dig."""
    return t.pick([spot for spot in w.SPOTS[place] if spot.preposition != "on" and spot.name not in FIRM])


def promise(t: Teller) -> None:
    """A promise, and something that makes one forget it."""
    hero, friend = t.children()
    meeting = PLACES[t.pick(("lake", "hill", "beach", "river"))]
    start = t.place(w.OUTDOORS, meeting, MARKET)
    t.begin(hero)
    t.day(hero, start)
    t("friend", friend, to=hero, where=start)
    t("promise", hero, to=friend, where=meeting)
    t("go", friend, to=meeting)
    t("go", hero, to=MARKET)
    t("puppets", hero)
    if t.chance(0.5):
        t("remembers", hero, to=friend)
        t("go", hero, to=meeting, how="run")
        t("kept", friend, to=hero)
        t("moon", hero, to=friend)
        t("friends", hero, to=friend)
        return
    t("stays", hero)
    t("waits alone", friend, to=hero)
    t("leaves", friend, to=HOME)
    t("call on", hero, to=friend)
    t("forgot you", hero, to=friend)
    if t.chance(0.6):
        t("forgive", friend, to=hero)
        t("next time", hero, to=friend)
    else:
        t("not yet", friend, to=hero)
        t("feels", hero, to=friend, how="sad.quarrel")


def party(t: Teller) -> None:
    """A birthday that everybody seems to have forgotten."""
    hero, friend = t.children()
    busy = t.mixed((w.BAKER, w.TEACHER, w.POSTMAN, w.PAINTER, w.FARMER))[:2]
    places = t.mixed(w.OUTDOORS)[:2]
    dish = w.DISHES["cake"]
    t.begin(hero)
    t("birthday", hero)
    for person, place in zip(busy, places, strict=True):
        t("go", hero, to=place)
        t("meets", person, to=hero, where=place)
        t("no time", person, to=hero)
    t("feels", hero, how="sad.birthday")
    t("home", hero, to=HOME)
    t("surprise", friend, to=hero)
    t("party cake", friend, dish, to=hero)
    t("why busy", busy[0], to=hero)
    t("best day", hero)


def treasure_map(t: Teller) -> None:
    """A map with crosses; under most of them lies nothing that shines."""
    hero = t.child()
    elder = t.pick((w.GRANDPA, w.GRANDMA, w.FATHER))
    treasure = t.thing(w.TREASURES)
    start, *places = t.mixed(w.OUTDOORS)[:4]
    rubbish = t.mixed(w.RUBBISH)
    t.begin(hero, ("curious", "clever", "brave"))
    t.day(hero, start)
    t("find map", hero, w.MAP, where=t.spot((start,)))
    n_false = t.pick((1, 2))
    for place, thing in zip(places[:n_false], rubbish, strict=False):
        t("go", hero, to=place)
        t("digs up", hero, thing, where=_ground(t, place))
    goal = places[n_false]
    t("go", hero, to=goal)
    t("treasure", hero, treasure, where=_ground(t, goal))
    t("meets", elder, to=hero, where=goal)
    t("drew it", elder, w.MAP, to=hero)
    if t.chance(0.5):
        t("feels", hero, treasure, how="happy.map")
    else:
        t("sleep", hero, treasure)


def tooth(t: Teller) -> None:
    """A tooth comes out, is lost, and turns into a coin."""
    hero, friend = t.children()
    place = t.place(w.OUTDOORS)
    spots = t.mixed(w.SPOTS[place])
    apple = w.FOODS[t.pick(("apple", "pear", "carrot"))]
    coin = t.look(w.TREASURES["coin"])
    t.begin(hero)
    t("loose tooth", hero, w.TOOTH)
    t.day(hero, place)
    t("friend", friend, to=hero, where=place)
    t("own", friend, apple, how="new")
    t("bite", hero, w.TOOTH, to=friend, where=apple)
    if t.chance(0.6):
        t("tooth falls", hero, w.TOOTH)
        if t.chance(0.5):
            t("miss", hero, w.TOOTH, where=spots[1])
        t("find", friend, w.TOOTH, where=spots[0])
        t("take", friend, w.TOOTH)
        t("give", friend, w.TOOTH, to=hero, how="back")
    t("home", hero, to=HOME)
    t("pillow", hero, w.TOOTH)
    t("coin", hero, coin, to=w.TOOTH)
    t("gap", hero)


def picture(t: Teller) -> None:
    """A cat walks over a picture."""
    hero, friend = t.children()
    elder = t.pick(w.FAMILY)
    cat = t.look(w.ANIMALS["cat"])
    place = t.place([PLACES[name] for name in ("garden", "school", "park", "barn")])
    t.begin(hero)
    t.day(hero, place)
    t("paint", hero, w.PICTURE, to=elder)
    t("comes", cat, to=place)
    t("paws", cat, w.PICTURE, to=hero)
    t("feels", hero, w.PICTURE, how="sad.paws")
    t("friend", friend, to=hero, where=place)
    t("like flowers", friend, w.PICTURE, to=hero)
    t("stems", hero, w.PICTURE, to=friend)
    t("go", hero, to=t.place(w.OUTDOORS, place))
    t("meets", elder, to=hero, where=t.world.at[hero])
    t("give", hero, w.PICTURE, to=elder)
    t("fine flowers", elder, w.PICTURE, to=hero)
    t("smile", hero, cat)


def echo(t: Teller) -> None:
    """Somebody on the other side of the valley says everything again."""
    hero = t.child()
    elder = t.pick((w.GRANDPA, w.GRANDMA, w.FATHER, w.TEACHER))
    place = t.place(w.OUTDOORS, HILL)
    t.begin(hero)
    t.day(hero, HILL, scene=0.5)
    t("call", hero)
    t("call silly", hero)
    t("feels", hero, how="angry.echo")
    t("go", hero, to=place)
    t("meets", elder, to=hero, where=place)
    t("rude", hero, to=elder)
    t("be kind", elder, to=hero)
    t("back", hero, to=HILL)
    t("call kind", hero)
    t("new friend", hero, to=elder)

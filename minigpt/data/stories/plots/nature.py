"""Plots about what grows, melts, sails and flies."""

from minigpt.data.stories import words as w
from minigpt.data.stories.teller import Teller
from minigpt.data.stories.words import HOME, PLACES, Entity

GARDEN, FOREST = PLACES["garden"], PLACES["forest"]


def seed(t: Teller) -> None:
    """A seed is planted. One waits, one digs it out, one forgets it."""
    hero, friend = t.children()
    elder = t.pick((w.GRANDMA, w.GRANDPA, w.FARMER, w.MOTHER))
    spot = t.spot((GARDEN,))
    t.begin(hero)
    t.day(hero, GARDEN)
    t("meets", elder, to=hero, where=GARDEN)
    t("seed", elder, w.SEED, to=hero)
    t("plant", hero, w.SEED, where=spot)
    turn = t.pick(("waits", "digs", "forgets"))
    if turn == "digs":
        t("dig out", hero, w.SEED, where=spot)
        t("advice", elder, w.SEED, to=hero)
        t("plant", hero, w.SEED, where=spot, how="again")
    if turn == "forgets":
        t("forget", hero, w.SEED)
        t("water", friend, w.SEED, how="secret")
    else:
        t("water", hero, w.SEED)
        t("nothing", hero, w.SEED)
    t("sprout", w.SEED, where=spot)
    t("bloom", w.SUNFLOWER, w.SEED, where=spot)
    if turn == "forgets":
        t("who watered", hero, w.SUNFLOWER)
        t("I did", friend, w.SUNFLOWER, to=hero)
        t("friends", hero, to=friend)
    elif t.chance(0.5):
        t("proud flower", hero, w.SUNFLOWER, to=elder)
    else:
        t("tall", hero, w.SUNFLOWER, to=elder)


def snowman(t: Teller) -> None:
    """A snowman gets a scarf, and goes away with the snow."""
    hero, friend = t.children()
    scarf = t.look(w.LIGHT["scarf"])
    place = t.place([PLACES[name] for name in ("garden", "park", "hill")])
    spot = t.spot((place,))
    elder = t.pick(w.FAMILY)
    t.begin(hero)
    t("own", hero, scarf)
    t("snow day", hero, to=place)
    t("friend", friend, to=hero, where=place)
    t("build", hero, w.SNOWMAN, to=friend)
    t("dress", hero, scarf, to=w.SNOWMAN)
    t("melt", w.SNOWMAN, scarf, where=spot)
    t("find", hero, scarf, where=spot)
    t("feels", hero, w.SNOWMAN, how="sad.melted")
    t("meets", elder, to=hero, where=place)
    t("he comes back", elder, w.SNOWMAN, to=hero)
    t("take", hero, scarf)
    t("next winter", hero, w.SNOWMAN, to=friend)
    t("dress", hero, scarf, to=w.SNOWMAN, how="again")


def raft(t: Teller) -> None:
    """A raft has a hole, and a scarf closes it."""
    hero, friend = t.children()
    cloth = t.look(w.LIGHT[t.pick(("hat", "scarf"))])
    place = PLACES[t.pick(("lake", "river"))]
    t.begin(hero)
    t("own", hero, cloth)
    t.day(hero, place, scene=0.3)
    t("friend", friend, to=hero, where=place)
    t("own", friend, w.RAFT, how="built")
    t("sail", friend, w.RAFT, to=hero)
    t("hole", hero, w.RAFT, to=friend)
    if t.chance(0.6):
        t("plug", hero, cloth, to=w.RAFT)
        t("shore", hero, w.RAFT, to=friend, how="dry")
        t("wet cloth", hero, cloth)
        t("thank", friend, to=hero)
    else:
        t("shore", hero, w.RAFT, to=friend, how="wet")
        t("home both", hero, to=friend)
        t("warm", t.pick((w.MOTHER, w.GRANDMA)), to=hero)
    t("friends", hero, to=friend)


def lantern(t: Teller) -> None:
    """Night in the forest, and the light goes out."""
    hero, friend = t.children()
    t.begin(hero, near=0.3)
    t("evening", hero, to=FOREST)
    t("friend", friend, to=hero, where=FOREST)
    t("own", friend, w.LANTERN, how="lit")
    t("goes out", friend, w.LANTERN)
    t("feels", hero, to=friend, how="scared.dark")
    if t.chance(0.5):
        t("owl", w.OWL, to=hero)
        t("owl way", w.OWL, to=hero)
    else:
        t("hold hands", hero, to=friend)
        t("hear bell", hero, to=friend)
    t("home both", hero, to=friend)
    elder = t.pick((w.MOTHER, w.GRANDMA))
    t("warm", elder, to=hero)
    t("not afraid", hero, to=friend)


def magpie(t: Teller) -> None:
    """Something that shines is gone. Who took it?"""
    hero, friend = t.children()
    treasure = t.thing(w.TREASURES)
    place = t.place([PLACES[name] for name in ("garden", "park", "hill", "barn")])
    nest = t.place([PLACES[name] for name in ("forest", "river", "beach", "lake")])
    spot = t.spot((place,))
    t.begin(hero)
    t("own", hero, treasure)
    t.day(hero, place)
    t("friend", friend, to=hero, where=place)
    t("lays", hero, treasure, where=spot)
    t("vanish", hero, treasure, where=spot)
    t("blame", hero, treasure, to=friend)
    t("not me", friend, treasure, to=hero)
    t("leaves", friend, to=HOME)
    t("go", hero, to=nest)
    t("nest", w.MAGPIE, treasure, to=hero)
    t("from nest", hero, treasure, to=w.MAGPIE)
    t("call on", hero, to=friend)
    t("sorry for", hero, treasure, to=friend)
    _forgive(t, hero, friend)


def _forgive(t: Teller, hero: Entity, friend: Entity) -> None:
    """The end of a quarrel."""
    if t.chance(0.7):
        t("forgive", friend, to=hero)
        t("friends", hero, to=friend)
    else:
        t("not yet", friend, to=hero)
        t("feels", hero, to=friend, how="sad.quarrel")


def race(t: Teller) -> None:
    """The quick one and the slow one."""
    hero = t.child()
    quick, slow = t.thing(w.QUICK), t.thing(w.SLOW)
    start, goal = t.mixed(w.OUTDOORS)[:2]
    t.begin(hero)
    t.day(hero, start)
    spots = t.mixed(w.SPOTS[start])
    t("sits", quick, to=hero, where=spots[0])
    t("sits", slow, to=hero, where=spots[1])
    t("challenge", quick, to=slow, where=goal)
    t("start", hero, quick, to=slow)
    if t.chance(0.6):
        t("sleeps", quick, to=slow)
        t("passes", slow, to=quick)
        t("arrives", slow, to=goal, how="first")
        t("arrives", quick, to=goal, how="late")
        t("how come", quick, to=slow)
    else:
        t("arrives", quick, to=goal, how="first")
        t("waits for", quick, to=slow)
        t("arrives", slow, to=goal, how="late")
        t("have seen", slow, to=quick)

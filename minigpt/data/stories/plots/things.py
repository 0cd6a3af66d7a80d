"""Plots about a thing that somebody owns: it is lost, given, locked away, shared or broken."""

from minigpt.data.stories import words as w
from minigpt.data.stories.teller import Teller
from minigpt.data.stories.words import HOME, PLACES, Entity

BEDROOM = PLACES["bedroom"]


def lost(t: Teller) -> None:
    """A thing is left behind, taken by a dog, or blown away. Has somebody seen it?"""
    hero, friend = t.children()
    cause = t.pick(("left", "dog", "wind"))
    if cause == "wind":
        _lost_in_the_wind(t, hero, friend)
        return
    toy = t.own(hero, w.TOYS)
    spot = t.spot(w.OUTDOORS)
    start = spot.place if cause == "left" else t.place(w.OUTDOORS, spot.place)
    t.begin(hero, ("clever",) if t.chance(0.2) else (), near=0.1)
    t("own", hero, toy)
    t.day(hero, start)
    if cause == "left":
        t("leave", hero, toy, where=spot)
        t.also("home", hero, to=HOME)
        t("lack", hero, toy)
        t("miss", hero, toy, where=t.spot(w.INDOORS))
        if t.world.trait[hero] == "clever":
            t("remember", hero, toy, where=spot)
            _fetch(t, hero, toy, spot)
            return
    else:
        dog = t.look(w.ANIMALS["dog"])
        t("comes", dog, to=start)
        t("steal", dog, toy, to=hero)
        t("go", dog, to=spot.place, how="run")
        t.also("drop", dog, toy, where=spot)
    if t.chance(0.3):
        t("feels", hero, toy, how="sad.gone")
    there = t.place(w.OUTDOORS, spot.place, start)
    t("go", hero, toy, to=there)
    t("meets", friend, to=hero, where=there)
    t("ask seen", hero, toy, to=friend)
    t("tell", friend, toy, to=hero, where=spot)
    _fetch(t, hero, toy, spot)


def _lost_in_the_wind(t: Teller, hero: Entity, friend: Entity) -> None:
    """The end of `lost` where the wind takes the thing."""
    toy = t.own(hero, w.LIGHT)
    spot = t.spot(w.OUTDOORS)
    start = t.place(w.OUTDOORS, spot.place)
    t.begin(hero, ("clever",) if t.chance(0.2) else (), near=0.1)
    t("own", hero, toy)
    t.day(hero, start, "windy")
    t("blow", hero, toy)
    if t.chance(0.3):
        t("feels", hero, toy, how="sad.gone")
    there = t.place(w.OUTDOORS, spot.place, start)
    t("go", hero, toy, to=there, how="after")
    t("miss", hero, toy, where=t.spot((there,)))
    t("meets", friend, to=hero, where=there)
    t("ask seen", hero, toy, to=friend)
    if t.chance(0.6):
        t("unknown", friend, toy, to=hero)
        t.home(hero)
        t("never", hero, toy)
        t("sleep", hero, toy, how="gone")
        return
    t("tell", friend, toy, to=hero, where=spot)
    _fetch(t, hero, toy, spot)


def _fetch(t: Teller, hero: Entity, toy: Entity, spot: Entity) -> None:
    """The hero finds the thing again."""
    t("go", hero, to=spot.place)
    t("find", hero, toy, where=spot)
    if t.chance(0.5):
        t("feels", hero, toy, how="happy.found")
    else:
        t("take", hero, toy)
        t("sleep", hero, toy)


def gift(t: Teller) -> None:
    """A friend is sad. The hero has something at home that could help: is it given?"""
    hero, friend = t.children()
    toy = t.own(hero, w.TOYS)
    box = t.thing(w.BOXES)
    place = t.place(w.OUTDOORS)
    t.begin(hero, w.MEAN if t.chance(0.3) else w.TRAITS, near=0.2)
    t("keep", hero, toy, to=box, where=t.spot((BEDROOM,)))
    t.day(hero, place)
    t("friend", friend, to=hero, where=place)
    trouble = t.pick(("broken", "lost", "alone"))
    if trouble == "broken":
        own = t.own(friend, w.BREAKABLE)
    elif trouble == "lost":
        own = t.own(friend, w.TOYS)
    else:
        own = None
    t("feels", friend, own, how="sad." + trouble)
    if t.world.trait[hero] in w.MEAN:
        t("keeps", hero, toy)
        t("leaves", friend, to=HOME)
        t.home(hero)
        t("feels", hero, to=friend, how="sad.late")
        return
    t("wish", hero, toy, to=friend)
    t("go", hero, to=BEDROOM)
    t.also("open", hero, box)
    t("take", hero, toy)
    t("back", hero, to=place)
    t("give", hero, toy, to=friend, how="sad")
    t("feels", friend, toy, how="happy.gift")
    if t.chance(0.3):
        t("thank", friend, to=hero)
    else:
        t("friends", hero, to=friend)


def chest(t: Teller) -> None:
    """Something lies in a closed box, and its key somewhere else."""
    hero = t.child()
    elder = t.pick(w.FAMILY)
    box = t.thing(w.BOXES)
    treasure = t.thing(w.TREASURES)
    place = t.place(w.OUTDOORS)
    spot = t.spot(w.OUTDOORS, place)
    t.begin(hero)
    t.day(hero, place)
    t("meets", elder, to=hero, where=place)
    t("stands", box, to=hero, where=t.spot((place,)))
    t("locked", hero, box)
    t("key", elder, w.KEY, to=hero, where=spot)
    t("go", hero, to=spot.place)
    t("find", hero, w.KEY, where=spot)
    t("back", hero, to=place, what=w.KEY, how="with")
    t.also("open", hero, box)
    t("inside", hero, treasure, to=box)
    if t.chance(0.5):
        t("take", hero, treasure)
        t.also("give", hero, treasure, to=elder)
        t("mine", elder, treasure)
        t("thank", elder, to=hero)
        return
    t("yours", elder, treasure, to=hero)
    t("take", hero, treasure)
    if t.chance(0.5):
        t("sleep", hero, treasure)
    else:
        t("feels", hero, treasure, how="happy.gift")


def share(t: Teller) -> None:
    """Two children and one toy."""
    hero, friend = t.children()
    toy = t.own(hero, w.TOYS)
    place = t.place(w.OUTDOORS)
    t.begin(hero, w.MEAN if t.chance(0.6) else w.TRAITS, near=0.3)
    t("own", hero, toy)
    t.day(hero, place, scene=0.5)
    if t.chance(0.5):
        t("play", hero, toy)
    t("friend", friend, to=hero, where=place)
    t("ask may", friend, toy, to=hero)
    if t.world.trait[hero] not in w.MEAN:
        t("yes", hero, toy, to=friend)
        t("give", hero, toy, to=friend)
        t("together", hero, toy, to=friend)
        if t.chance(0.5):
            t("give", friend, toy, to=hero, how="back")
            t("thank", friend, to=hero)
    else:
        t("no", hero, toy, to=friend)
        t("feels", friend, toy, to=hero, how="sad.no")
        if t.chance(0.5):
            t("leaves", friend, to=HOME)
            t("alone", hero, toy)
            t("feels", hero, toy, to=friend, how="sad.regret")
            return
        t("regret", hero, to=friend)
        t("give", hero, toy, to=friend, how="sad")
        t("together", hero, toy, to=friend)
    if t.chance(0.5):
        t("friends", hero, to=friend)
    else:
        t("feels", hero, to=friend, how="happy.both")


def broken(t: Teller) -> None:
    """The hero breaks what belongs to a friend. Can it be mended?"""
    hero, friend = t.children()
    toy = t.own(friend, w.BREAKABLE)
    place = t.place(w.OUTDOORS)
    own = t.own(hero, w.TOYS)
    mender = t.pick((w.FATHER, w.GRANDPA, w.TEACHER, w.BAKER))
    shop = t.place(w.OUTDOORS, place)
    is_hopeless = t.chance(0.4)
    t.begin(hero)
    if is_hopeless:
        t("own", hero, own)
    t.day(hero, place)
    t("friend", friend, to=hero, where=place)
    t("lend", friend, toy, to=hero)
    t("break", hero, toy)
    t("feels", friend, toy, how="sad.broken")
    if t.chance(0.5):
        t("say sorry", hero, to=friend)
    if is_hopeless:
        t("give", hero, own, to=friend, how="sad")
        t("feels", friend, own, how="happy.gift")
        t("friends", hero, to=friend)
        return
    t("go", hero, to=shop)
    t("meets", mender, to=hero, where=shop)
    t("ask mend", hero, toy, to=mender)
    t("mend", mender, toy, to=hero)
    t("back", hero, to=place)
    t.also("give", hero, toy, to=friend, how="back")
    if t.chance(0.5):
        t("feels", friend, toy, how="happy.mended")
    else:
        t("friends", hero, to=friend)

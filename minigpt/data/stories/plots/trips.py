"""Plots about somebody who goes somewhere to help, to carry, to bake or to play."""

from minigpt.data.stories import words as w
from minigpt.data.stories.teller import Teller
from minigpt.data.stories.words import HOME, PLACES, Entity

KITCHEN = PLACES["kitchen"]


def _one_of(t: Teller, *names: str) -> Entity:
    """One of the places with these names."""
    return PLACES[t.pick(names)]


def hungry(t: Teller) -> None:
    """An animal wants its own kind of food."""
    hero = t.child()
    kind = t.pick(tuple(w.LIKES))
    name = w.LIKES[kind]["food"]
    food = w.FOODS[name]
    animal = t.look(w.ANIMALS[kind])
    spot = w.LARDER[name]
    seen_at = [PLACES[place] for place in w.LIKES[kind]["places"]]
    place = t.place(seen_at, spot.place)
    has_wrong_food = t.chance(0.4)
    if has_wrong_food:
        wrong = w.FOODS[t.pick(("pear", "lemon", "cookie", "egg"))]
    t.begin(hero)
    t.day(hero, place, scene=0.3)
    if has_wrong_food:
        t("own", hero, wrong, how="new")
    t("sits", animal, to=hero, where=t.spot((place,)))
    if has_wrong_food:
        t("hungry", animal)
        t("offer", hero, wrong, to=animal)
        t("craves", animal, food)
    else:
        t("hungry", animal, food, how="food")
    t("go", hero, to=spot.place)
    if t.chance(0.25):
        t("none", hero, food, where=spot.place)
        t("back", hero, to=place)
        t("gone hungry", animal)
        t("feels", hero, food, to=animal, how="sad.none")
        return
    t("find", hero, food, where=spot)
    t("take", hero, food)
    t("back", hero, to=place)
    t.also("give", hero, food, to=animal)
    t("eat", animal, food)
    if t.chance(0.5):
        t("feels", animal, food, how="happy.fed")
    if t.chance(0.5):
        t("follow", animal, to=hero)
    else:
        t("friends", hero, to=animal, how="beast")


def weather(t: Teller) -> None:
    """Two children have a plan, and the weather has another."""
    hero, friend = t.children()
    name = t.pick(tuple(w.PLANS))
    plan = w.PLANS[name]
    place = _one_of(t, *plan["places"])
    elder = t.pick((w.MOTHER, w.GRANDMA))
    thing = None
    if name == "kite":
        thing = t.thing({"kite": w.TOYS["kite"]})
    elif name == "snow":
        thing = t.thing(w.WARM)
    t.begin(hero, near=0.3)
    t("day", hero, to=HOME, how="home")
    t("visit", friend, to=hero)
    t("plan", hero, thing, to=friend, where=place, how=name)
    t("weather", hero, how=plan["prevented_by"])
    if plan["prevented_by"] == "rain" and t.chance(0.5):
        t("wet", hero, to=place)
        t("cold", hero, to=HOME)
        t("warm", elder, to=hero)
    else:
        t("wait", hero, to=friend)
    t("weather", hero, how=plan["allowed_by"])
    t("walk", hero, to=friend, where=place)
    t("do", hero, thing, to=friend, where=place, how=name)
    t("feels", hero, to=friend, how="happy.both")
    t("friends", hero, to=friend)


def rescue(t: Teller) -> None:
    """A small animal is up in a tree. A brave child climbs; another needs help and a ladder."""
    hero = t.child()
    helper = t.pick((w.FARMER, w.FATHER, w.GRANDPA))
    animal = t.thing(w.SMALL_ANIMALS)
    place = _one_of(t, "garden", "park", "forest")
    shed = _one_of(t, "barn", "market", "river")
    t.begin(hero, ("brave",) if t.chance(0.4) else w.TRAITS)
    t.day(hero, place, scene=0.3)
    t("stuck", animal, to=hero, where=place)
    t("feels", animal, how="scared.stuck")
    if t.world.trait[hero] == "brave":
        t("climb", hero)
        t("down", hero, animal)
        t("feels", animal, how="happy.safe")
        if t.chance(0.5):
            t("follow", animal, to=hero)
        t("known", hero, how="brave")
        return
    t("high", hero)
    t("go", hero, to=shed)
    t.way(hero, animal)
    t("meets", helper, to=hero, where=shed)
    t("ask help", hero, animal, to=helper)
    t("fetch", helper, w.LADDER, where=shed)
    t("walk", hero, to=helper, where=place)
    t("up", helper, w.LADDER)
    t("down", helper, animal)
    if t.chance(0.5):
        t("feels", animal, how="happy.safe")
    else:
        t("follow", animal, to=hero)


def baking(t: Teller) -> None:
    """Something to eat for somebody; what it is made of must be found first."""
    hero = t.child()
    elder = t.pick(w.FAMILY)
    name = t.pick(tuple(w.RECIPES))
    dish = w.DISHES[name]
    parts = [w.FOODS[part] for part in w.RECIPES[name]]
    if t.chance(0.5):
        parts.reverse()
    place = _one_of(t, "garden", "park", "hill", "lake")
    t.begin(hero)
    t.day(hero, KITCHEN)
    t("baking", hero, dish, to=elder)
    t("need", hero, parts[0], to=parts[1])
    for part in parts:
        spot = w.LARDER[part.name]
        if t.world.at[hero] is not spot.place:
            t("go", hero, to=spot.place)
        t.also("get", hero, part, where=spot)
    if t.world.at[hero] is not KITCHEN:
        t("back", hero, to=KITCHEN)
    t("bake", hero, dish, to=parts[0], where=parts[1])
    if t.chance(0.3):
        thief = t.look(w.ANIMALS[t.pick(("dog", "cat", "goat"))])
        t("comes", thief, to=KITCHEN)
        t("stolen", thief, dish, to=hero)
        t("go", hero, to=place)
        t("meets", elder, to=hero, where=place)
        t("gone", hero, dish, to=elder)
        t("dear", elder, dish, to=hero)
        return
    t("go", hero, to=place)
    t("meets", elder, to=hero, where=place)
    t("give", hero, dish, to=elder)
    if t.chance(0.5):
        t("nice", elder, dish)
    else:
        t("feels", hero, dish, to=elder, how="proud.made")


def seek(t: Teller) -> None:
    """Hide and seek."""
    hero, friend = t.children()
    with_choice = [place for place in w.OUTDOORS if len(w.HIDING[place]) > 1]
    place = t.place(with_choice)
    spot = t.pick(w.HIDING[place])
    others = [other for other in t.mixed(w.SPOTS[place]) if other is not spot]
    t.begin(hero, near=0.5)
    t.day(hero, place, scene=0.5)
    t("friend", friend, to=hero, where=place)
    t("seek", hero, to=friend)
    t("count", hero)
    t("hide", friend, where=spot)
    n_tries = t.pick((1, 2))
    for other in others[:n_tries]:
        t("seek miss", hero, to=friend, where=other)
    if t.chance(0.3):
        t("give up", hero, to=friend)
        t("comes out", friend, where=spot)
    else:
        t("hear", hero, to=friend, where=spot)
        t("caught", hero, to=friend, where=spot)
    if t.chance(0.5):
        t("friends", hero, to=friend)
    else:
        t("feels", hero, to=friend, how="happy.both")


def errand(t: Teller) -> None:
    """Something must be carried to somebody, and somebody else wants it on the way."""
    hero = t.child()
    elder = t.pick((w.MOTHER, w.FATHER))
    other = t.pick((w.GRANDMA, w.GRANDPA, w.TEACHER))
    dish = w.DISHES[t.pick(("cake", "pie", "bread"))]
    beggar = t.look(w.ANIMALS[t.pick(("dog", "bear", "duck", "goat", "mouse"))])
    goal = t.place(w.OUTDOORS)
    way = t.place(w.OUTDOORS, goal)
    t.begin(hero)
    t.day(hero, KITCHEN)
    t("task", elder, dish, to=hero, where=other)
    t("lives", other, to=goal)
    t("go", hero, to=way)
    t("sits", beggar, to=hero, where=t.spot((way,)))
    t("beg", beggar, dish, to=hero)
    if t.chance(0.5):
        t("give", hero, dish, to=beggar)
        t("eat", beggar, dish)
        t("go", hero, to=goal)
        t.also("gave away", hero, dish, to=other, where=beggar)
        t("good heart", other, to=hero)
    else:
        t("refuse", hero, dish, to=beggar, where=other)
        t.way(hero, beggar)
        t("go", hero, to=goal)
        t.also("give", hero, dish, to=other)
        t("nice", other, dish)
        t("thank", other, to=hero)

"""The plots: each is a small script that lets things happen, by chance and by what the world has become.

A plot gets the teller `t` and calls `t(kind, who, …)` for every event; `t.also` says it in the same sentence where that
reads well. The names of the kinds are those of the rules and the patterns.
"""

from minigpt.data.stories import words as w
from minigpt.data.stories.words import HOME, PLACES

KITCHEN = PLACES["kitchen"]


def lost(t):
    """A thing is left behind, taken by a dog, or blown away. Has somebody seen it?"""
    hero, friend = t.children()
    cause = t.pick(("left", "dog", "wind"))
    toy = t.own(hero, w.LIGHT if cause == "wind" else w.TOYS)
    spot = t.spot(w.OUTDOORS)
    start = spot.place if cause == "left" else t.place(w.OUTDOORS, spot.place)
    t.begin(hero, ("clever",) if t.chance(0.2) else (), near=0.1)
    t("own", hero, toy)
    t.day(hero, start, "windy" if cause == "wind" else "")
    if cause == "left":
        t("leave", hero, toy, where=spot)
        t.also("home", hero, to=HOME)
        t("lack", hero, toy)
        t("miss", hero, toy, where=t.spot(w.INDOORS))
        if t.world.trait[hero] == "clever":
            t("remember", hero, toy, where=spot)
            return _fetch(t, hero, toy, spot)
    elif cause == "dog":
        dog = t.look(w.ANIMALS["dog"])
        t("comes", dog, to=start)
        t("steal", dog, toy, to=hero)
        t("go", dog, to=spot.place, how="run")
        t.also("drop", dog, toy, where=spot)
    else:
        t("blow", hero, toy)
    if t.chance(0.3):
        t("feels", hero, toy, how="sad.gone")
    t("go", hero, toy, to=t.place(w.OUTDOORS, spot.place, start), how="after" if cause == "wind" else "")
    if cause == "wind":
        t("miss", hero, toy, where=t.spot((t.world.at[hero],)))
    t("meets", friend, to=hero, where=t.world.at[hero])
    t("ask seen", hero, toy, to=friend)
    if cause == "wind" and t.chance(0.6):
        t("unknown", friend, toy, to=hero)
        t.home(hero)
        t("never", hero, toy)
        return t("sleep", hero, toy, how="gone")
    t("tell", friend, toy, to=hero, where=spot)
    return _fetch(t, hero, toy, spot)


def _fetch(t, hero, toy, spot):
    t("go", hero, to=spot.place)
    t("find", hero, toy, where=spot)
    if t.chance(0.5):
        return t("feels", hero, toy, how="happy.found")
    t("take", hero, toy)
    return t("sleep", hero, toy)


def gift(t):
    """A friend is sad. The hero has something at home that could help: is it given?"""
    hero, friend = t.children()
    toy, box, place = t.own(hero, w.TOYS), t.thing(w.BOXES), t.place(w.OUTDOORS)
    t.begin(hero, w.MEAN if t.chance(0.3) else w.TRAITS, near=0.2)
    t("keep", hero, toy, to=box, where=t.spot((PLACES["bedroom"],)))
    t.day(hero, place)
    t("friend", friend, to=hero, where=place)
    trouble = t.pick(("broken", "lost", "alone"))
    own = None if trouble == "alone" else t.own(friend, w.BREAKABLE if trouble == "broken" else w.TOYS)
    t("feels", friend, own, how="sad." + trouble)
    if t.world.trait[hero] in w.MEAN:
        t("keeps", hero, toy)
        t("leaves", friend, to=HOME)
        t.home(hero)
        return t("feels", hero, to=friend, how="sad.late")
    t("wish", hero, toy, to=friend)
    t("go", hero, to=PLACES["bedroom"])
    t.also("open", hero, box)
    t("take", hero, toy)
    t("back", hero, to=place)
    t("give", hero, toy, to=friend, how="sad")
    t("feels", friend, toy, how="happy.gift")
    return t("thank", friend, to=hero) if t.chance(0.3) else t("friends", hero, to=friend)


def hungry(t):
    """An animal wants its own kind of food."""
    hero, kind = t.child(), t.pick(tuple(w.LIKES))
    name, places = w.LIKES[kind]
    food, animal, spot = w.FOODS[name], t.look(w.ANIMALS[kind]), w.LARDER[name]
    place = t.place([PLACES[place] for place in places.split()], spot.place)
    wrong = t.pick([w.FOODS[other] for other in ("pear", "lemon", "cookie", "egg")]) if t.chance(0.4) else None
    t.begin(hero)
    t.day(hero, place, scene=0.3)
    if wrong:
        t("own", hero, wrong, how="new")
    t("sits", animal, to=hero, where=t.spot((place,)))
    if wrong:
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
        return t("feels", hero, food, to=animal, how="sad.none")
    t("find", hero, food, where=spot)
    t("take", hero, food)
    t("back", hero, to=place)
    t.also("give", hero, food, to=animal)
    t("eat", animal, food)
    if t.chance(0.5):
        t("feels", animal, food, how="happy.fed")
    return t("follow", animal, to=hero) if t.chance(0.5) else t("friends", hero, to=animal, how="beast")


def chest(t):
    """Something lies in a closed box, and its key somewhere else."""
    hero, elder = t.child(), t.pick(w.FAMILY)
    box, treasure = t.thing(w.BOXES), t.thing(w.TREASURES)
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
        return t("thank", elder, to=hero)
    t("yours", elder, treasure, to=hero)
    t("take", hero, treasure)
    return t("sleep", hero, treasure) if t.chance(0.5) else t("feels", hero, treasure, how="happy.gift")


def share(t):
    """Two children and one toy."""
    hero, friend = t.children()
    toy, place = t.own(hero, w.TOYS), t.place(w.OUTDOORS)
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
            return t("feels", hero, toy, to=friend, how="sad.regret")
        t("regret", hero, to=friend)
        t("give", hero, toy, to=friend, how="sad")
        t("together", hero, toy, to=friend)
    return t("friends", hero, to=friend) if t.chance(0.5) else t("feels", hero, to=friend, how="happy.both")


def weather(t):
    """Two children have a plan, and the weather has another."""
    hero, friend = t.children()
    plan = t.pick(tuple(w.PLANS))
    places, bad, good = w.PLANS[plan]
    place, elder = PLACES[t.pick(places.split())], t.pick((w.MOTHER, w.GRANDMA))
    thing = t.thing({"kite": {"kite": w.TOYS["kite"]}, "snow": w.WARM}[plan]) if plan != "swim" else None
    t.begin(hero, near=0.3)
    t("day", hero, to=HOME, how="home")
    t("visit", friend, to=hero)
    t("plan", hero, thing, to=friend, where=place, how=plan)
    t("weather", hero, how=bad)
    if bad == "rain" and t.chance(0.5):
        t("wet", hero, to=place)
        t("cold", hero, to=HOME)
        t("warm", elder, to=hero)
    else:
        t("wait", hero, to=friend)
    t("weather", hero, how=good)
    t("walk", hero, to=friend, where=place)
    t("do", hero, thing, to=friend, where=place, how=plan)
    t("feels", hero, to=friend, how="happy.both")
    t("friends", hero, to=friend)


def rescue(t):
    """A small animal is up in a tree. A brave child climbs; another needs help and a ladder."""
    hero, helper = t.child(), t.pick((w.FARMER, w.FATHER, w.GRANDPA))
    animal = t.thing(w.SMALL_ANIMALS)
    place, shed = PLACES[t.pick(("garden", "park", "forest"))], PLACES[t.pick(("barn", "market", "river"))]
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
        return t("known", hero, how="brave")
    t("high", hero)
    t("go", hero, to=shed)
    t.way(hero, animal)
    t("meets", helper, to=hero, where=shed)
    t("ask help", hero, animal, to=helper)
    t("fetch", helper, w.LADDER, where=shed)
    t("walk", hero, to=helper, where=place)
    t("up", helper, w.LADDER)
    t("down", helper, animal)
    return t("feels", animal, how="happy.safe") if t.chance(0.5) else t("follow", animal, to=hero)


def baking(t):
    """Something to eat for somebody; what it is made of must be found first."""
    hero, elder, name = t.child(), t.pick(w.FAMILY), t.pick(tuple(w.DISHES))
    dish, parts = w.DISH[name], [w.FOODS[part] for part in w.DISHES[name]]
    if t.chance(0.5):
        parts.reverse()
    place = PLACES[t.pick(("garden", "park", "hill", "lake"))]
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
    thief = t.look(w.ANIMALS[t.pick(("dog", "cat", "goat"))]) if t.chance(0.3) else None
    if thief:
        t("comes", thief, to=KITCHEN)
        t("stolen", thief, dish, to=hero)
        t("go", hero, to=place)
        t("meets", elder, to=hero, where=place)
        t("gone", hero, dish, to=elder)
        return t("dear", elder, dish, to=hero)
    t("go", hero, to=place)
    t("meets", elder, to=hero, where=place)
    t("give", hero, dish, to=elder)
    return t("nice", elder, dish) if t.chance(0.5) else t("feels", hero, dish, to=elder, how="proud.made")


def broken(t):
    """The hero breaks what belongs to a friend. Can it be mended?"""
    hero, friend = t.children()
    toy, place = t.own(friend, w.BREAKABLE), t.place(w.OUTDOORS)
    own = t.own(hero, w.TOYS)
    mender, shop = t.pick((w.FATHER, w.GRANDPA, w.TEACHER, w.BAKER)), t.place(w.OUTDOORS, place)
    hopeless = t.chance(0.4)
    t.begin(hero)
    if hopeless:
        t("own", hero, own)
    t.day(hero, place)
    t("friend", friend, to=hero, where=place)
    t("lend", friend, toy, to=hero)
    t("break", hero, toy)
    t("feels", friend, toy, how="sad.broken")
    if t.chance(0.5):
        t("say sorry", hero, to=friend)
    if hopeless:
        t("give", hero, own, to=friend, how="sad")
        t("feels", friend, own, how="happy.gift")
        return t("friends", hero, to=friend)
    t("go", hero, to=shop)
    t("meets", mender, to=hero, where=shop)
    t("ask mend", hero, toy, to=mender)
    t("mend", mender, toy, to=hero)
    t("back", hero, to=place)
    t.also("give", hero, toy, to=friend, how="back")
    return t("feels", friend, toy, how="happy.mended") if t.chance(0.5) else t("friends", hero, to=friend)


def seek(t):
    """Hide and seek."""
    hero, friend = t.children()
    place = t.place([place for place in w.OUTDOORS if len(w.HIDING[place]) > 1])
    spot = t.pick(w.HIDING[place])
    others = [other for other in t.mixed(w.SPOTS[place]) if other is not spot]
    t.begin(hero, near=0.5)
    t.day(hero, place, scene=0.5)
    t("friend", friend, to=hero, where=place)
    t("seek", hero, to=friend)
    t("count", hero)
    t("hide", friend, where=spot)
    for other in others[:t.pick((1, 2))]:
        t("seek miss", hero, to=friend, where=other)
    if t.chance(0.3):
        t("give up", hero, to=friend)
        t("comes out", friend, where=spot)
    else:
        t("hear", hero, to=friend, where=spot)
        t("caught", hero, to=friend, where=spot)
    return t("friends", hero, to=friend) if t.chance(0.5) else t("feels", hero, to=friend, how="happy.both")


def errand(t):
    """Something must be carried to somebody, and somebody else wants it on the way."""
    hero, elder, other = t.child(), t.pick((w.MOTHER, w.FATHER)), t.pick((w.GRANDMA, w.GRANDPA, w.TEACHER))
    dish = w.DISH[t.pick(("cake", "pie", "bread"))]
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


PLOTS = (lost, gift, hungry, chest, share, weather, rescue, baking, broken, seek, errand)

"""Plots in which a thing goes from hand to hand, or from place to place."""

from minigpt.data.stories import words as w
from minigpt.data.stories.teller import Teller
from minigpt.data.stories.words import HOME, PLACES

KITCHEN, MARKET = PLACES["kitchen"], PLACES["market"]
LEFT = ("three", "two", "one", "none")  # pieces of a cake


def swaps(t: Teller) -> None:
    """One thing is given for another, and that for a third, until the first comes back."""
    hero = t.child()
    names = t.mixed(w.SWAPS)[:3]
    own, second, third = (t.look(w.SWAPS[name]) for name in names)
    first_trader, second_trader = t.mixed(w.TRADERS)[:2]
    start, middle, end = t.mixed(w.OUTDOORS)[:3]
    t.begin(hero)
    t("own", hero, own)
    t.day(hero, start)
    t("meets", first_trader, to=hero, where=start)
    t("swap", hero, own, to=first_trader, where=second)
    t("go", hero, to=middle)
    t("meets", second_trader, to=hero, where=middle)
    t("swap", hero, second, to=second_trader, where=third)
    t("go", hero, to=end)
    t("after", first_trader, to=hero, where=end)
    t("swap back", hero, third, to=first_trader, where=own)
    t("round", hero, own)


def letter(t: Teller) -> None:
    """A letter is carried to somebody; the wind takes it on the way. What does it say?"""
    hero = t.child()
    sender = t.pick(w.FAMILY)
    receiver = t.pick((w.BAKER, w.FARMER, w.PAINTER, w.DOCTOR))
    start, there, goal, feast = t.mixed(w.OUTDOORS)[:4]
    t.begin(hero, near=0.2)
    t.day(hero, start)
    t("meets", w.POSTMAN, to=hero, where=start)
    t("letter", w.POSTMAN, w.LETTER, to=hero, where=receiver)
    t("lives", receiver, to=goal)
    if t.chance(0.7):
        t("blow", hero, w.LETTER)
        t("go", hero, w.LETTER, to=there, how="after")
        if t.chance(0.5):
            empty, spot = t.mixed(w.SPOTS[there])[:2]
            t("miss", hero, w.LETTER, where=empty)
        else:
            spot = t.spot((there,))
        t("find", hero, w.LETTER, where=spot)
        t("take", hero, w.LETTER)
    t("go", hero, to=goal)
    t("give", hero, w.LETTER, to=receiver)
    t("read", receiver, w.LETTER, to=sender, where=feast)
    t("walk", receiver, to=hero, where=feast)
    t("meets", sender, to=hero, where=feast)
    t("feast", sender, to=hero, where=receiver)


def pieces(t: Teller) -> None:
    """A cake in three pieces, and more mouths than pieces."""
    hero, friend = t.children()
    cook = t.pick((w.MOTHER, w.FATHER, w.GRANDMA))
    dish = w.DISHES[t.pick(("cake", "pie"))]
    eaters = t.mixed((w.POSTMAN, w.FISHERMAN, w.DOCTOR, w.PAINTER, w.FARMER, w.OLD_WOMAN))
    first, second, last = t.mixed(w.OUTDOORS)[:3]
    t.begin(hero)
    t.day(hero, KITCHEN)
    t("cut", cook, dish, to=hero)
    for eater, place, left in zip(eaters, (first, second), LEFT[1:], strict=False):
        t("go", hero, to=place)
        t("meets", eater, to=hero, where=place)
        t("piece", hero, dish, to=eater, how=left)
    if t.chance(0.3):
        t("last piece", hero, dish)
        t("friend", friend, to=hero, where=second)
        t("too late", friend, dish, to=hero)
        t("regret", hero, to=friend)
        t("another", hero, dish, to=friend)
        return
    t("go", hero, to=last)
    t("friend", friend, to=hero, where=last)
    t("piece", hero, dish, to=friend, how="none")
    t("half", friend, dish, to=hero)
    t("friends", hero, to=friend)


def soup(t: Teller) -> None:
    """Soup of a stone, and of all that others bring."""
    hero = t.child()
    dish = w.DISHES["soup"]
    names = list(t.mixed(("carrot", "fish", "bread", "cheese", "milk")))
    foods = [w.FOODS[name] for name in names[:2]]
    cook = t.pick((w.OLD_WOMAN, w.FISHERMAN, w.POSTMAN))
    place = t.place([PLACES[name] for name in ("hill", "river", "beach", "park", "forest")])
    t.begin(hero)
    t.day(hero, place)
    t("meets", cook, to=hero, where=place)
    t("stone soup", cook, w.STONE, to=hero, where=dish)
    for food in foods:
        spot = w.LARDER[food.name]
        t("missing", cook, food, to=hero, where=dish)
        t("go", hero, to=spot.place)
        t.also("get", hero, food, where=spot)
        t("back", hero, to=place)
        t("add", hero, food, to=dish)
    t("ready", cook, dish, to=hero)
    t("secret", cook, w.STONE, to=hero)


def hat(t: Teller) -> None:
    """The wind plays with a hat."""
    hero = t.child()
    cap = t.look(w.LIGHT["hat"])
    elder = t.pick((w.GRANDPA, w.FATHER, w.GRANDMA, w.MOTHER))
    start, first, second, end = t.mixed(w.OUTDOORS)[:4]
    t.begin(hero)
    t("own", hero, cap)
    t.day(hero, start, "windy")
    t("blow", hero, cap)
    for place in (first, second)[: t.pick((1, 2))]:
        t("go", hero, cap, to=place, how="after")
        t("flies on", hero, cap, where=t.spot((place,)))
    t("go", hero, cap, to=end, how="after")
    t("meets", elder, to=hero, where=end)
    t("new hat", elder, cap, to=hero)
    t("give", elder, cap, to=hero, how="back")
    if t.chance(0.5):
        t("holds on", hero, cap)
    else:
        t("home", hero, to=HOME)
        t("holds on", hero, cap)

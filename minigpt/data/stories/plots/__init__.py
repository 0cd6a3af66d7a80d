"""The plots: each is a small script that lets things happen, by chance and by what the world has become.

A plot gets the teller `t` and calls `t(kind, who, …)` for every event; `t.also` says it in the same sentence where that
reads well. The names of the kinds are those of the rules and the patterns.
"""

from minigpt.data.stories.plots.chains import hat, letter, pieces, soup, swaps
from minigpt.data.stories.plots.children import echo, party, picture, promise, tooth, treasure_map
from minigpt.data.stories.plots.nature import lantern, magpie, race, raft, seed, snowman
from minigpt.data.stories.plots.things import broken, chest, gift, lost, share
from minigpt.data.stories.plots.trips import baking, errand, hungry, rescue, seek, weather

__all__ = ["FIRST_PLOTS", "PLOTS"]

# Chance draws by position.
FIRST_PLOTS = (lost, gift, hungry, chest, share, weather, rescue, baking, broken, seek, errand)  # of smaller worlds
PLOTS = (
    *FIRST_PLOTS, swaps, letter, pieces, soup, hat, seed, snowman, raft, lantern, magpie, race, promise, party,
    treasure_map, tooth, picture, echo,
)  # fmt: skip

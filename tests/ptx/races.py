"""Races: who wrote and who read each place last, and whether anything has brought the two in order.

Two threads race if both come to the same place, one of them writes, and no barrier lies between: of the block
(bar.sync), or, within a warp, of the warp (bar.warp.sync). Between two blocks nothing is ever in order. It does not
matter which of the two came first in this play: on a GPU it may be the other one.
"""

import numpy as np

PLACE = 2  # bytes: the smallest number that kernels write
NOBODY, SEVERAL = -1, -2


class Visitors:
    """Of each place, who came last: a thread, its warp and its block, and which barriers they had behind them.

    Where several came that no barrier keeps apart, SEVERAL stands for their threads, warps or blocks.
    """

    def __init__(self, places: int):
        self.thread, self.warp, self.block, self.phase, self.phase_of_warp = np.full((5, places), NOBODY, np.int32)

    def race_with(self, places, me):
        """Where the last visitor is another thread that no barrier keeps apart from this one."""
        phase, block = self.phase[places], self.block[places]
        now = phase == me.phase
        racing = (block != me.block) & (block != NOBODY)
        if now.any():
            apart = (self.warp[places] == me.warp) & (self.phase_of_warp[places] != me.phase_of_warp)
            racing |= now & (self.thread[places] != me.thread) & ~apart
        return racing

    def note(self, places, me):
        """These threads are the last visitors."""
        thread, warp, block = self.thread[places], self.warp[places], self.block[places]
        now = self.phase[places] == me.phase
        now_in_warp = now & (self.phase_of_warp[places] == me.phase_of_warp)
        self._keep(self.thread, places, me.thread, now_in_warp & (thread != me.thread))
        self._keep(self.warp, places, me.warp, now & (warp != me.warp))
        self._keep(self.block, places, me.block, (block != me.block) & (block != NOBODY))
        self.phase[places] = me.phase
        self.phase_of_warp[places] = me.phase_of_warp

    @staticmethod
    def _keep(kept, places, mine, shared):
        """mine, or SEVERAL where others count as well: those that came before, or that come in the same instruction."""
        kept[places] = mine
        shared = shared | (kept[places] != mine)
        if shared.any():
            kept[places[shared]] = SEVERAL


class Shadow:
    """The visitors of a memory of so many bytes."""

    def __init__(self, size: int):
        self.writers, self.readers = Visitors(size // PLACE), Visitors(size // PLACE)

    def read(self, places, me):
        """Where a read is a race."""
        racing = self.writers.race_with(places, me)
        self.readers.note(places, me)
        return racing

    def write(self, places, me):
        """Where a write is a race, also with another thread in the same instruction."""
        racing = self.writers.race_with(places, me) | self.readers.race_with(places, me)
        self.writers.note(places, me)
        return racing | (self.writers.thread[places] != me.thread)

    def is_written(self, places):
        return self.writers.thread[places] != NOBODY


def places_of(positions, size: int):
    """(threads, places): where so many bytes from each position on lie."""
    return positions[:, None] // PLACE + np.arange(max(1, size // PLACE))

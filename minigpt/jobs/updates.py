"""Many updates, one after the other: the loop of every command that trains.

Between two of them it can be stopped, is kept now and then, and stands still for an evaluation.
"""

from collections.abc import Callable

from tqdm import tqdm

from minigpt.jobs.interrupt import Stopped, Timer


class Updates:
    """The updates of one model. A subclass makes them, and says when they pause.

    step: updates made; total: of all. stopped(): the number of the signal that wants the work to end, or 0. progress:
    what stands beside the bar.
    """

    step: int
    total: int
    progress = ""

    def __init__(self, stopped: Callable[[], int] = lambda: 0):
        self.stopped = stopped
        self.timer = Timer()

    def update(self) -> None:
        """Update number `step` of the weights, from 0."""
        raise NotImplementedError

    @property
    def pauses(self) -> bool:
        """Is there something to do after this step, such as an evaluation?"""
        raise NotImplementedError

    def pause(self) -> None:
        """Do it. Calls `check` now and then."""
        raise NotImplementedError

    def keep(self) -> None:
        """Write the file from which the work goes on; here nothing."""

    def check(self) -> None:
        """Raises Stopped where a signal wants the work to end, after it is kept."""
        number = self.stopped()
        if number:
            self.keep()
            raise Stopped(number)

    def all_updates(self, title: str | None = None) -> None:
        """All that are left, each pause in its place; before the first the one that is due. Raises Stopped."""
        if self.pauses:
            self.pause()
        with tqdm(total=self.total, initial=self.step, desc=title, unit="step", dynamic_ncols=True) as bar:
            while self.step < self.total:
                self.check()
                if self.timer.due:
                    with self.timer.keeping():
                        self.keep()
                self.update()
                bar.update()
                if self.pauses:
                    self.pause()
                bar.set_postfix_str(self.progress, refresh=False)

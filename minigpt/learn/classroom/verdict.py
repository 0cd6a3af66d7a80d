"""What a judge says of one exercise: a word, what was found, and the report that a learner reads."""

import math
from typing import Any, NamedTuple

from minigpt.learn.classroom.language import tr

RIGHT, WRONG, NOT_BEGUN, NO_ANSWER, NOT_JUDGED = "right", "not right", "not begun", "no answer", "not judged"


def word_of(verdict: str | None) -> str:
    """The word for a verdict, in the reader's language; "-" where there is none."""
    words = {RIGHT: tr("right"), WRONG: tr("not right"), NOT_BEGUN: tr("not begun"), NO_ANSWER: tr("no answer"),
             NOT_JUDGED: tr("not judged")}  # fmt: skip
    return words.get(verdict, "-")


class Finding(NamedTuple):
    """One thing that is wrong.

    tried: in which trial. tensor, index: where the error is largest; yours, true: both numbers there, NaN where there
    are none. mistake: what is likely wrong, in a sentence.
    """

    tried: str
    tensor: str
    mistake: str
    index: tuple[int, ...] = ()  # type: ignore[assignment]  # a place, and not a tuple's method
    yours: float = math.nan
    true: float = math.nan

    @property
    def ratio(self) -> float:
        """yours / true; NaN where there is none."""
        return self.yours / self.true if self.true else math.nan

    def as_json(self) -> dict[str, Any]:
        """The same for a program; what is no finite number becomes null."""
        numbers = {"yours": self.yours, "true": self.true, "ratio": self.ratio}
        finite = {name: value if math.isfinite(value) else None for name, value in numbers.items()}
        return {
            "tried": self.tried,
            "tensor": self.tensor,
            "index": list(self.index),
            **finite,
            "mistake": self.mistake,
        }


class Verdict(NamedTuple):
    """word: RIGHT, WRONG, NOT_BEGUN (nothing is filled in yet), NO_ANSWER (the file cannot be run, or its process
    failed), or NOT_JUDGED (this machine lacks what its judge needs). report: the lines to print. sandbox: which
    protection ran. seed: of the cases; the same seed and file give the same verdict.
    """

    exercise: str
    word: str
    findings: list[Finding]
    report: list[str]
    seed: int
    sandbox: str
    seconds: float

    @property
    def is_right(self) -> bool:
        """Nothing is wrong, and something was judged."""
        return self.word == RIGHT

    def as_json(self) -> dict[str, Any]:
        """The same for a program."""
        found = [finding.as_json() for finding in self.findings]
        values = self._asdict() | {"findings": found, "seconds": round(self.seconds, 1)}
        del values["report"]
        return values


def without_answer(exercise: str, word: str, why: str) -> Verdict:
    """The verdict on a file that could not be judged: the reason is what was found, and the report."""
    return Verdict(exercise, word, [Finding("file", "", why)], [why], 0, "", 0.0)

"""How good is an answer in words? Exact match and F1, by the rules of SQuAD and of CoQA.

Sources: Rajpurkar et al. 2016, section 6.1, and `evaluate-v2.0.py`; Reddy et al. 2019, section 5.1, and
`coqa-evaluate.py`. Both compare words in small letters, without articles and without punctuation of ASCII.
"""

import re
import string
from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

from minigpt.errors import InputError

METRICS = ("squad", "coqa")
_ARTICLES = re.compile(r"\b(?:a|an|the)\b")
_NO_PUNCTUATION = str.maketrans("", "", string.punctuation)


class Agreement(NamedTuple):
    """How far an answer agrees with the right ones: exact match and F1, each from 0 to 1."""

    exact: float
    f1: float


def words(text: str) -> list[str]:
    """The words that are compared: in small letters, without punctuation, and then without articles."""
    plain = text.lower().translate(_NO_PUNCTUATION)
    return _ARTICLES.sub(" ", plain).split()


def agreement(written: str, answer: str) -> Agreement:
    """Of one answer. F1 of the words, each as often as it occurs; where one side has none, 1 if both have none, else 0.

    (The first version of SQuAD's script says 0 where both have none.)
    """
    given = words(written)
    wanted = words(answer)
    same = float(given == wanted)
    if not given or not wanted:
        return Agreement(same, same)
    both = (Counter(given) & Counter(wanted)).total()
    return Agreement(same, 2 * both / (len(given) + len(wanted)))


def best(written: str, answers: Sequence[str]) -> Agreement:
    """The best exact match and the best F1 with any of the right answers: SQuAD's rule."""
    found = [agreement(written, answer) for answer in answers]
    return Agreement(max(one.exact for one in found), max(one.f1 for one in found))


def best_of_the_others(written: str, answers: Sequence[str]) -> Agreement:
    """CoQA's rule: the best with all answers but one, on average over the one that is left out.

    A person's own answer is compared with those of the others, so that a model must be too. One answer: `best`.
    """
    if len(answers) == 1:
        return best(written, answers)
    found = []
    for i in range(len(answers)):
        others = [*answers[:i], *answers[i + 1 :]]
        found.append(best(written, others))
    n = len(found)
    return Agreement(sum(one.exact for one in found) / n, sum(one.f1 for one in found) / n)


def judge(written: str, answers: Sequence[str], metric: str) -> Agreement:
    """The agreement by one of METRICS. Raises InputError for another one, and where there are no answers."""
    if metric not in METRICS or not answers:
        raise InputError(f"{len(answers)} answers judged by {metric!r}: give one or more, and {' or '.join(METRICS)}")
    return best_of_the_others(written, answers) if metric == "coqa" else best(written, answers)

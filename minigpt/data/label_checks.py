"""Labels that may not be meant: scores, the wrong column, the same word in two spellings, a word that is misspelt."""

import re
import unicodedata
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from minigpt.errors import InputError

NO_GOLD = "-"  # how published files write that an example has no label: SNLI, where its annotators did not agree
FEW = 20  # so many examples of each label, on average, make a label with a single one a rare one
RARE = 0.01  # a label is rare below this share of the examples,
BELOW_AVERAGE = 0.1  # if it has less than this share of what the labels have on average


def check_labels(path: Path, kind: str, counts: Mapping[str, int], column: Any) -> None:
    """Raises InputError for labels that look like scores or like the numbers of lines, or that are the same number.

    counts: how many examples each label has. column: where they stand.
    """
    names = sorted(counts)
    total = sum(counts.values())
    try:
        values = [float(name) for name in names]
    except ValueError:
        values = []
    fractions = [name for name, value in zip(names, values, strict=False) if value % 1]
    if fractions:
        some = ", ".join(fractions[:3])
        advice = "give classes, such as low and high"
        if kind == "similarity":
            advice = f"name their column as scores, with --columns score={column}"
        raise InputError(f"{path}: labels such as {some} are numbers, and each would be a class of its own: {advice}")
    if len(set(values)) < len(values):
        raise InputError(f"{path}: of the labels {', '.join(names[:9])} two are the same number: write it one way")
    if len(names) > 10 and len(names) > total / 2:
        many = f"{total} examples have {len(names)} different labels"
        raise InputError(f"{path}: {many}: is {column!r} the column of the labels?")


def unusual_labels(path: Path, labels: Sequence[str], lines: Sequence[int]) -> Iterator[str]:
    """A line for each label that few examples have, and for labels that only their spelling tells apart, with counts.

    labels: of each example, and lines: where it stands in the file. Such labels are classes like all others: only
    whoever wrote the file knows whether they are meant.
    """
    counts = Counter(labels)
    for name in _rare(counts):
        line = lines[labels.index(name)]
        found = f"the label {name!r} stands at {counts[name]:,} of {len(labels):,} examples, first at this one"
        yield f"{path}, line {line}: {found}: is it meant?"
    for names in _spellings(counts):
        found = ", ".join(f"{name!r} ({counts[name]:,} examples)" for name in names)
        yield f"{path}: labels that only their spelling tells apart are classes of their own: {found}: are they meant?"


def _rare(counts: Counter[str]) -> list[str]:
    """The labels that few examples have: a single one, where there are many of each on average, or less than RARE."""
    total = counts.total()
    average = total / len(counts)
    limit = min(RARE * total, BELOW_AVERAGE * average)
    return [name for name, n in counts.items() if n < limit or (n == 1 and average >= FEW)]


def _spellings(counts: Counter[str]) -> list[list[str]]:
    """Labels that are equal but for capitals, for how their letters are composed, and for spaces, - and _ in words."""
    alike: dict[str, list[str]] = {}
    for name in sorted(counts):
        plain = unicodedata.normalize("NFKC", name).casefold()
        plain = re.sub(r"(?<=[^\W_])[\s_-]+(?=[^\W_])", " ", plain)
        alike.setdefault(plain, []).append(name)
    return [names for names in alike.values() if len(names) > 1]

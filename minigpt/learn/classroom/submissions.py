"""The files that a class has handed in: whose each is, and which exercise.

class/Kim Minji/03_attention.py          a folder for each learner, or
class/Kim Minji - 03_attention.py        the name before the exercise's own file name
"""

import re
import unicodedata
from collections import Counter
from pathlib import Path
from typing import NamedTuple

from minigpt.errors import InputError
from minigpt.learn.classroom import course
from minigpt.learn.classroom.course import Exercise
from minigpt.learn.classroom.language import tr

FLAT = re.compile(r"(?s)(?P<learner>.*?)[ _.-]*(?<!\d)(?P<file>\d\d_[a-z0-9_]+\.py)")


class Submission(NamedTuple):
    """One file of one learner."""

    learner: str
    exercise: Exercise
    path: Path


def find_submissions(folder: Path) -> list[Submission]:
    """All submissions in a folder, by learner and exercise; other files are left alone.

    Raises InputError where the folder is missing or has no submission, for a file without a learner's name, and where a
    learner has handed in an exercise twice.
    """
    if not folder.is_dir():
        raise InputError(tr("{folder} is not a folder: give the one with the submissions", folder=folder))
    found = []
    for path in sorted(folder.rglob("*.py")):
        submission = _submission(path, folder)
        if submission is not None:
            found.append(submission)
    if not found:
        about = {"folder": folder, "example": folder / "Kim Minji" / "03_attention.py"}
        raise InputError(tr("{folder} has no submission: expected files such as {example}", **about))
    spelled = {}  # as it is for the first time: "kim" is "Kim"
    found = [one._replace(learner=spelled.setdefault(one.learner.casefold(), one.learner)) for one in found]
    counts = Counter((one.learner.casefold(), one.exercise.key) for one in found)
    for one in found:
        if counts[one.learner.casefold(), one.exercise.key] > 1:
            both = ", ".join(str(other.path) for other in found if _same(other, one))
            about = {"learner": one.learner, "file": one.exercise.file, "both": both}
            raise InputError(tr("{learner} has handed in {file} twice: {both}: keep one of them", **about))
    return sorted(found, key=lambda one: (one.learner.casefold(), one.exercise.key))


def _same(one: Submission, other: Submission) -> bool:
    return (one.learner.casefold(), one.exercise.key) == (other.learner.casefold(), other.exercise.key)


def _shown(name: str) -> str:
    """A learner's name: Hangul in one form, and \\u202e in the place of what cannot be printed or stored."""
    whole = unicodedata.normalize("NFC", name)
    return "".join(one if one.isprintable() else one.encode("unicode_escape").decode() for one in whole)


def _submission(path: Path, folder: Path) -> Submission | None:
    """The submission that a file is; None for a file that bears no exercise's name."""
    match = FLAT.fullmatch(path.name)
    if match is None:
        return None
    try:
        exercise = course.exercise_of(match["file"])
    except InputError:
        return None
    inside = path.relative_to(folder).parts[:-1]
    if any(part.startswith((".", "__")) for part in (*inside, path.name)):
        return None  # what an operating system has added
    learner = _shown(match["learner"].strip() or (inside[0] if inside else ""))
    if not learner:
        raise InputError(
            tr("{file} has no learner's name: put it into a folder with the name, or the name before it", file=path)
        )
    return Submission(learner, exercise, path)

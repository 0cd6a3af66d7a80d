"""The course as the lessons themselves tell it: each lesson, its minutes and its exercises.

A lesson ends with a numbered list of exercises. One that names a file, `exercises/03_attention.py`, is judged; one that
names none is open: a question for pencil or for an experiment. Before them stands exercise 0 of some lessons: to write
the lesson's own operations, from a stub to the library's judge.
"""

import functools
import re
from pathlib import Path
from typing import Any, NamedTuple

from minigpt.errors import InputError
from minigpt.files.disk import read_toml
from minigpt.learn.cells import cells
from minigpt.learn.classroom.language import language, tr
from minigpt.learn.lessons import find_lessons

OPERATIONS = {
    "00": ("softmax",),
    "01": ("linear", "embedding"),
    "02": ("cross_entropy",),
    "03": ("attention",),
    "04": ("self_attention",),
    "05": ("gelu", "gelu_exact", "mlp"),
    "06": ("layernorm",),
    "08": ("linear_cross_entropy",),
    "14": ("lstm",),
    "28": ("soft_cross_entropy", "cosine_loss"),
    "32": ("cross_attention", "rmsnorm"),
}
HINTS = "lessons/exercises/hints.toml"
HEADING = re.compile(r"^## \d+\. Exercises$", re.MULTILINE)
ITEM = re.compile(r"^(\d+)\. ", re.MULTILINE)
FILE = re.compile(r"`exercises/(\d\d_\w+\.py)`")
READING = re.compile(r"^Reading: (?:(\d+) minutes for the core, )?(\d+) minutes", re.MULTILINE)


class Exercise(NamedTuple):
    """One exercise of a lesson.

    file: the name of its file; "" for an open question. operations: what exercise 0 has to write; () for all others.
    """

    lesson: str
    number: int
    file: str
    text: str
    operations: tuple[str, ...] = ()

    @property
    def key(self) -> str:
        """Its name in the table of hints, in the progress file and in reports: "03_attention", or "03.3"."""
        return self.file.removesuffix(".py") if self.file else f"{self.lesson}.{self.number}"

    @property
    def is_open(self) -> bool:
        """Is it a question, which no program judges?"""
        return not self.file

    @property
    def name(self) -> str:
        """As a learner reads it: "lesson 03, exercise 2"."""
        return f"lesson {self.lesson}, exercise {self.number}"


class Lesson(NamedTuple):
    """One lesson: its number as in its file's name, what it is about, the minutes to read it, and its exercises.

    core: the minutes to read its core; as many as for all of it where it has no deeper parts.
    """

    number: str
    path: Path
    title: str
    minutes: int
    core: int
    exercises: tuple[Exercise, ...]

    @property
    def judged(self) -> list[Exercise]:
        """The exercises that have a file."""
        return [exercise for exercise in self.exercises if not exercise.is_open]


@functools.cache
def lessons() -> dict[str, Lesson]:
    """{"03": its Lesson, …} in the order of the course. Raises InputError where this installation has no lessons."""
    found = {}
    for name, path in sorted(find_lessons().items()):
        match = re.fullmatch(r"lessons/(\d\d)_\w+\.py", name)
        if match:
            found[match[1]] = _read(match[1], path)
    return found


def lesson(number: str) -> Lesson:
    """The lesson with this number: "03", or "3". Raises InputError for one that does not exist."""
    wanted = number.zfill(2)
    known = lessons()
    if not number or wanted not in known:
        raise InputError(tr("there is no lesson {number!r}: give one of 00 to {last}", number=number, last=max(known)))
    return known[wanted]


def exercise_of(name: str, where: Lesson | None = None) -> Exercise:
    """The exercise with this file name or key ("03_attention.py", "03_attention", "03.3"), or its number in a lesson.

    Raises InputError for one that does not exist.
    """
    among = lessons().values() if where is None else [where]
    for one in among:
        for exercise in one.exercises:
            if name in (exercise.key, exercise.file) or (where and name == str(exercise.number)):
                return exercise
    if where is None:
        raise InputError(tr("{name} is no exercise: give a name such as 03_attention.py", name=name))
    known = ", ".join(f"{exercise.number} ({exercise.key})" for exercise in where.exercises)
    about = {"lesson": where.number, "name": name, "known": known}
    raise InputError(tr("lesson {lesson} has no exercise {name}: it has {known}", **about))


@functools.cache
def _hint_table() -> dict[str, dict]:
    """{key of an exercise: its "hints" and "answer", "hints_ko" and "answer_ko"}; empty where the file is missing."""
    path = find_lessons().get(HINTS)
    return read_toml(path) if path else {}


def _told(exercise: Exercise, what: str, nothing: Any) -> Any:
    """Its "hints" or "answer" in the reader's language; in English, where that has none; `nothing` without both."""
    about = _hint_table().get(exercise.key, {})
    return about.get(f"{what}_{language()}", about.get(what, nothing))


def hints_of(exercise: Exercise) -> list[str]:
    """Its hints, from a question to nearly the line, in the reader's language."""
    if exercise.operations:
        return _hints_of_operations(exercise)
    return list(_told(exercise, "hints", []))


def answer_of(exercise: Exercise) -> str:
    """The answer of an open question, or the measured result, in the reader's language; "" where there is none."""
    return _told(exercise, "answer", "").strip()


def path_of(exercise: Exercise) -> Path:
    """The shipped file of an exercise, with its judge. Raises InputError where it is missing."""
    path = find_lessons().get(f"lessons/exercises/{exercise.file}")
    if path is None:
        raise InputError(
            tr("this installation has no lessons/exercises/{file}: install it again with pip", file=exercise.file)
        )
    return path


def source_of(exercise: Exercise) -> str:
    """The text of that file."""
    return path_of(exercise).read_text(encoding="utf-8")


def _hints_of_operations(exercise):
    title = lessons()[exercise.lesson].path.name
    names = ", ".join(exercise.operations)
    return [
        tr(
            "{file}, section 2, has the forward pass one operation a line. Which values does each line use?", file=title
        ),
        tr(
            "Section 3 undoes these lines in reverse. Under each forward line: what is its local gradient, and which "
            "gradients does it add to?"
        ),
        tr(
            "Section 4 collapses {names} to the closed form. `minigpt lesson {lesson}` shows it cell by cell.",
            names=names,
            lesson=exercise.lesson,
        ),
    ]


def _read(number: str, path: Path) -> Lesson:
    prose = [cell.prose for cell in cells(path) if not cell.is_code]
    title = prose[0].splitlines()[0].partition(": ")[2]
    core, minutes = READING.search(prose[0]).groups()
    exercises = []
    if number in OPERATIONS:
        names = OPERATIONS[number]
        text = f"Write {' and '.join(names)}: forward and backward, judged as the library's own are."
        exercises.append(Exercise(number, 0, f"{number}_operations.py", text, names))
    for text in prose:
        heading = HEADING.search(text)
        if heading:
            exercises += _items(number, text[heading.end() :])
    return Lesson(number, path, title, int(minutes), int(core or minutes), tuple(exercises))


def _items(number: str, text: str) -> list[Exercise]:
    """The items of the numbered list of exercises."""
    _, *parts = ITEM.split(text)
    found = []
    for item, words in zip(parts[::2], parts[1::2], strict=True):
        file = FILE.search(words)
        found.append(Exercise(number, int(item), file[1] if file else "", " ".join(words.split())))
    return found

"""Mistakes that students make, ten for each of five exercises: all are caught, and what is said first names the cause.

Each is a whole file as a student hands it in: a right one in which mistakes/mistakes.toml changes a line or two.
"""

import importlib.util
import tomllib
from collections import Counter
from pathlib import Path
from typing import NamedTuple

import pytest
from handed_in import solution

from minigpt.gradcheck.judge import judge
from minigpt.jobs.check import pair_of
from minigpt.learn import lines
from minigpt.learn.classroom.checking import Limits, check_exercise
from minigpt.learn.classroom.course import exercise_of, source_of
from minigpt.learn.classroom.stubs import parts
from minigpt.learn.judging import check_file
from minigpt.learn.museum.pieces import changed
from minigpt.learn.sandbox.process import Child
from minigpt.learn.sandbox.remote import RemoteFile

FOLDER = Path(__file__).parent / "mistakes"
OPERATIONS = {"02": "cross_entropy", "03": "attention", "06": "layernorm"}  # of a lesson's exercise 0
OTHERS = {"01": "01_tied_weights", "05": "05_swiglu"}
LESSONS = sorted([*OPERATIONS, *OTHERS])
SEED = 1


class Mistake(NamedTuple):
    """file: the right one in which it is made; its first two characters are the lesson. name: "" for no mistake."""

    file: str
    name: str = ""
    expects: str = ""
    change: str = ""

    @property
    def lesson(self) -> str:
        return self.file[:2]

    @property
    def text(self) -> str:
        path = FOLDER / f"{self.file}.py"
        right = path.read_text(encoding="utf-8") if path.exists() else solution(self.file)
        return changed(right, self.change) if self.change else right

    def hand_in(self, folder: Path) -> Path:
        """Write it under the name that its exercise has, and return the file."""
        path = folder / f"{OTHERS.get(self.lesson, f'{self.lesson}_operations')}.py"
        path.write_text(self.text, encoding="utf-8")
        return path

    def is_named(self, sentence: str) -> bool:
        """Does a sentence have the words by which a teacher would know the cause?"""
        return all(any(words in sentence for words in part.strip().split("|")) for part in self.expects.split(";"))


TABLES = tomllib.loads((FOLDER / "mistakes.toml").read_text(encoding="utf-8"))
MISTAKES = [Mistake(file, name, **about) for file, table in TABLES.items() for name, about in table.items()]


def module_of(path: Path):
    spec = importlib.util.spec_from_file_location(path.stem, path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def first_sentence(trials) -> str:
    """The first thing that is wrong in the first trial that fails, after the name of its gradient; "" where none is."""
    for _, results in trials:
        for result in results:
            if result.word != "happy":
                return f"d{result.name}: {result.diagnosis}"
    return ""


def of_an_operation(op: str, module) -> str:
    return first_sentence(judge(op, *pair_of(module, op), SEED))


def of_lines(exercise: str, module) -> str:
    """By the judge that stands in the exercise, with the functions of this module in the place of its own."""
    _, judge_of_it = parts(source_of(exercise_of(exercise)))
    names = dict(vars(module)) | {"__name__": "__main__"}
    with lines.watched() as results, pytest.raises(SystemExit):
        exec(judge_of_it, names)
    return first_sentence([("lines", [result._replace(name=result.name.removeprefix("d")) for result in results])])


def says(one: Mistake, folder: Path) -> str:
    """What is said first of a file."""
    module = module_of(one.hand_in(folder))
    if one.lesson in OPERATIONS:
        return of_an_operation(OPERATIONS[one.lesson], module)
    return of_lines(OTHERS[one.lesson], module)


@pytest.fixture(scope="module")
def found(tmp_path_factory) -> dict[Mistake, str]:
    return {one: says(one, tmp_path_factory.mktemp(one.name)) for one in MISTAKES}


def test_there_are_ten_for_each_exercise():
    assert Counter(one.lesson for one in MISTAKES) == dict.fromkeys(LESSONS, 10)
    assert len({one.text for one in MISTAKES}) == len(MISTAKES)


@pytest.mark.parametrize("file", TABLES)
def test_the_file_without_the_mistake_is_right(file, tmp_path):
    assert says(Mistake(file), tmp_path) == ""


def test_every_mistake_is_caught(found):
    assert [one.name for one, sentence in found.items() if not sentence] == []


@pytest.mark.parametrize("lesson", LESSONS)
def test_nine_of_ten_are_named_by_what_is_said_first(lesson, found):
    here = {one: sentence for one, sentence in found.items() if one.lesson == lesson}
    unnamed = {one.name: sentence for one, sentence in here.items() if not one.is_named(sentence)}
    for one, sentence in here.items():
        print(f"{one.name:36} {'caught' if one.name in unnamed else 'named '} {sentence}")
    assert len(unnamed) <= 1, unnamed


@pytest.mark.slow
@pytest.mark.parametrize("one", MISTAKES, ids=[f"{one.file}-{one.name}" for one in MISTAKES])
def test_a_file_in_its_own_process_is_told_the_same(one, found, tmp_path):
    """As `minigpt learn check` runs it; of an operation up to the first case that fails."""
    path = one.hand_in(tmp_path)
    if one.lesson in OTHERS:
        first = check_exercise(exercise_of(OTHERS[one.lesson]), path, Limits(seed=SEED)).findings[0]
        assert f"d{first.tensor.removeprefix('d')}: {first.mistake}" == found[one]
        return
    with Child() as child:
        remote = RemoteFile(child, path, check_file.read(path))
        op = OPERATIONS[one.lesson]
        trials = check_file.watched(judge(op, *pair_of(remote.module, op), SEED), remote)
        assert first_sentence(trials) == found[one]
        child.finish()

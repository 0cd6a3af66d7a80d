"""Mistakes that students make, ten for each of five exercises: all are caught, and what is said first names the cause.

tests/mistakes/NN_name/KK_title.py is a whole file as a student hands it in, after a first line `# expects: a; b|c`: the
words by which a teacher would know the cause, a, and one of b and c. It is taken away before the file is judged.
"""

import importlib.util
from pathlib import Path

import pytest

from minigpt.gradcheck.judge import judge
from minigpt.jobs.check import pair_of
from minigpt.learn import lines
from minigpt.learn.classroom.checking import Limits, check_exercise
from minigpt.learn.classroom.course import exercise_of, path_of
from minigpt.learn.judging import check_file
from minigpt.learn.judging.borrowing import lent_to
from minigpt.learn.sandbox.process import Child
from minigpt.learn.sandbox.remote import RemoteFile

FOLDER = Path(__file__).parent / "mistakes"
OPERATIONS = {"02_cross_entropy": "cross_entropy", "03_attention": "attention", "06_layernorm": "layernorm"}
EXERCISES = sorted([*OPERATIONS, "01_tied_weights", "05_swiglu"])
FILES = [path for exercise in EXERCISES for path in sorted((FOLDER / exercise).glob("*.py"))]
SEED = 1


def handed_in(file: Path, folder: Path) -> tuple[str, Path]:
    """What is expected of a file, and the file without that line, under the name that its exercise has."""
    first, text = file.read_text(encoding="utf-8").split("\n", 1)
    assert first.startswith("# expects: ")
    lesson = file.parent.name[:2]
    name = f"{lesson}_operations" if file.parent.name in OPERATIONS else file.parent.name
    path = folder / f"{name}.py"
    path.write_text(text, encoding="utf-8")
    return first.removeprefix("# expects: "), path


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


def of_an_operation(exercise: str, module) -> str:
    return first_sentence(judge(OPERATIONS[exercise], *pair_of(module, OPERATIONS[exercise]), SEED))


def of_lines(exercise: str, module) -> str:
    """By the judge that stands in the exercise, with the functions of this module in the place of its own."""
    source = path_of(exercise_of(exercise)).read_text(encoding="utf-8")
    names = dict(vars(module)) | {"__name__": "__main__"}
    judge_of_it = source[source.index("# --- the judge") :]
    with lines.watched() as results, pytest.raises(SystemExit):
        exec(judge_of_it, names)
    return first_sentence([("lines", [result._replace(name=result.name.removeprefix("d")) for result in results])])


def says(file: Path, folder: Path) -> tuple[str, str]:
    """What is expected, and what is said first."""
    expected, path = handed_in(file, folder)
    exercise = file.parent.name
    of = of_an_operation if exercise in OPERATIONS else of_lines
    return expected, of(exercise, module_of(path))


def is_named(expected: str, sentence: str) -> bool:
    return all(any(words in sentence for words in part.strip().split("|")) for part in expected.split(";"))


@pytest.fixture(scope="module")
def found(tmp_path_factory) -> dict[Path, tuple[str, str]]:
    return {file: says(file, tmp_path_factory.mktemp(file.stem)) for file in FILES}


def test_there_are_ten_for_each_exercise():
    assert {exercise: sum(file.parent.name == exercise for file in FILES) for exercise in EXERCISES} == dict.fromkeys(
        EXERCISES, 10
    )


def test_every_mistake_is_caught(found):
    assert [file.stem for file, (_, sentence) in found.items() if not sentence] == []


@pytest.mark.parametrize("exercise", EXERCISES)
def test_nine_of_ten_are_named_by_what_is_said_first(exercise, found, capsys):
    here = {file.stem: both for file, both in found.items() if file.parent.name == exercise}
    unnamed = {stem: both for stem, both in here.items() if not is_named(*both)}
    for stem, (_, sentence) in here.items():
        print(f"{stem:36} {'caught' if stem in unnamed else 'named '} {sentence}")
    assert len(unnamed) <= 1, unnamed


@pytest.mark.slow
@pytest.mark.parametrize("file", FILES, ids=[f"{file.parent.name}-{file.stem}" for file in FILES])
def test_a_file_in_its_own_process_is_told_the_same(file, found, tmp_path):
    """As `minigpt learn check` runs it; of an operation up to the first case that fails."""
    _, path = handed_in(file, tmp_path)
    if file.parent.name not in OPERATIONS:
        first = check_exercise(exercise_of(file.parent.name), path, Limits(seed=SEED)).findings[0]
        assert f"d{first.tensor.removeprefix('d')}: {first.mistake}" == found[file][1]
        return
    with Child() as child:
        remote = RemoteFile(child, path, check_file.read(path))
        child.lender.allowed = lent_to(remote.operations())
        op = OPERATIONS[file.parent.name]
        assert (
            first_sentence(check_file.watched(judge(op, *pair_of(remote.module, op), SEED), remote)) == found[file][1]
        )
        child.finish()

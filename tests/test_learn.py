"""`minigpt learn`: the course as the lessons tell it, what is handed out, what is remembered, and hints and answers."""

import ast
import json
import tomllib

import numpy as np
import pytest

from minigpt import ops
from minigpt.cli import main
from minigpt.errors import InputError
from minigpt.learn.classroom import commands, course, stubs
from minigpt.learn.classroom.advice import what_to_print
from minigpt.learn.classroom.commands import AnswerOptions, HelpOptions, StatusOptions
from minigpt.learn.classroom.line_of_text import line_of_text
from minigpt.learn.classroom.progress import Progress
from minigpt.learn.classroom.verdict import Finding
from minigpt.learn.verse import VERSE
from minigpt.ops import reference, shapes

JUDGED = [exercise for lesson in course.lessons().values() for exercise in lesson.judged]
WRITTEN = [exercise for exercise in JUDGED if exercise.operations]


# --- the course ------------------------------------------------------------------------------------------------------


def test_the_course_has_every_exercise_of_every_lesson():
    files = {path.name for path in (course.lessons()["03"].path.parent / "exercises").glob("*.py")}
    assert {exercise.file for exercise in JUDGED if not exercise.operations} == files
    assert len(course.lessons()) == 39 and len(files) == 79
    for lesson in course.lessons().values():
        numbers = [exercise.number for exercise in lesson.exercises if exercise.number]
        assert numbers == list(range(1, len(numbers) + 1)), lesson.number
        assert lesson.title and 20 <= lesson.core <= 60 and lesson.core <= lesson.minutes <= 100


def test_every_exercise_has_hints_and_every_question_an_answer():
    for lesson in course.lessons().values():
        for exercise in lesson.exercises:
            assert len(course.hints_of(exercise)) >= 2, exercise.key
            assert bool(course.answer_of(exercise)) == exercise.is_open, exercise.key


def test_every_operation_is_written_once():
    """But dropout, which needs a hash, ReLU, which is a line, and what exercises are about: SwiGLU (05), turns (30)."""
    names = [op for exercise in WRITTEN for op in exercise.operations]
    assert sorted(names) == sorted(set(ops.names) - {"dropout", "relu", "silu", "gated_mlp", "rope"})


@pytest.mark.parametrize("name", ["44", "x", ""])
def test_an_unknown_lesson_is_refused(name):
    with pytest.raises(InputError, match="there is no lesson"):
        course.lesson(name)


def test_an_unknown_exercise_is_refused_with_those_there_are():
    with pytest.raises(
        InputError, match=r"lesson 03 has no exercise 9: it has 0 \(03_operations\), 1 \(03_attention\)"
    ):
        course.exercise_of("9", course.lesson("3"))
    with pytest.raises(InputError, match="mine.py is no exercise"):
        course.exercise_of("mine.py")


# --- what is handed out ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("exercise", WRITTEN, ids=lambda exercise: exercise.key)
def test_a_stub_has_the_shapes_of_the_library_and_nothing_in_it(exercise):
    text = stubs.handed_out(exercise)
    assert max(map(len, text.splitlines())) <= 120
    names = {}
    exec(compile(text, exercise.file, "exec"), names)
    for op in exercise.operations:
        forward = names[f"{op}_forward"]
        args = shapes.examples(getattr(reference, f"{op}_forward"))
        taken = dict(list(args.items())[: forward.__code__.co_argcount])
        with pytest.raises(NotImplementedError, match=f"^lesson {exercise.lesson}, exercise 0: {op}_forward$"):
            forward(**taken)
        inputs, _ = shapes.parse(forward.__doc__.splitlines()[0])
        assert [one.name for one in inputs] == [name for name in taken if name != "n_head"]
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.FunctionDef):
            assert len(node.body) == 2  # a docstring, and the error


@pytest.mark.parametrize("exercise", JUDGED, ids=lambda exercise: exercise.key)
def test_what_is_handed_out_has_no_judge(exercise):
    text = stubs.handed_out(exercise)
    assert "__main__" not in text and "def judge" not in text
    compile(text, exercise.file, "exec")
    if not exercise.operations:
        upper, judge = stubs.parts(course.source_of(exercise))
        assert upper.rstrip() + "\n" == text and "__main__" in judge
        lines = course.source_of(exercise).splitlines()
        assert judge.splitlines()[-1] == lines[-1] and len(judge.splitlines()) == len(lines)  # errors name real lines


def typed(*words) -> int:
    return main(["learn", *map(str, words)])


def test_start_writes_the_files_and_keeps_what_is_there(tmp_path, capsys):
    folder = tmp_path / "Minji 민지"
    assert typed("start", "3", "--folder", folder) == 0
    names = ["03_attention.py", "03_find_the_bug.py", "03_operations.py", "progress.toml"]
    assert sorted(path.name for path in folder.iterdir()) == names
    mine = folder / "03_attention.py"
    mine.write_text("# mine\n", encoding="utf-8")
    capsys.readouterr()
    assert typed("start", "03", "--folder", folder) == 0
    assert mine.read_text(encoding="utf-8") == "# mine\n"
    said = capsys.readouterr().out
    assert "3 files were there already and stay as they are" in said
    assert "minigpt lesson 03" in said and "minigpt learn check 03 --folder" in said


def test_reset_keeps_the_old_files_and_hands_out_new_ones(tmp_path, capsys):
    typed("start", "03", "--folder", tmp_path)
    mine = tmp_path / "03_attention.py"
    handed = mine.read_text(encoding="utf-8")
    for number, text in enumerate(("# one\n", "# two\n"), start=1):
        mine.write_text(text, encoding="utf-8")
        assert typed("reset", "03", "--folder", tmp_path) == 0
        assert (tmp_path / "old" / f"03_attention.{number}.py").read_text(encoding="utf-8") == text
        assert mine.read_text(encoding="utf-8") == handed


def test_the_folder_may_not_be_a_file_and_must_be_writable(tmp_path, capsys):
    file = tmp_path / "file"
    file.write_text("x", encoding="utf-8")
    for action in ("start", "check", "hint", "answer", "reset"):
        assert typed(action, "03", "--folder", file) == 2
        assert "is a file: give the name of a folder" in capsys.readouterr().err
    assert typed("status", "--folder", file) == 2
    assert typed("start", "03", "--folder", file / "below") == 2
    assert "Traceback" not in capsys.readouterr().err


# --- what is remembered ----------------------------------------------------------------------------------------------


def test_progress_is_kept_in_a_file_that_can_be_read(tmp_path):
    progress = Progress.load(tmp_path)
    progress["03_attention"].hints = 2
    progress["03.3"].own_answer = 'a "quoted" \\ answer\nin two lines, 그리고 한국어'
    progress["03.3"].answer_seen = True
    progress["nothing"]  # a record that says nothing is not written
    progress.save()
    again = Progress.load(tmp_path)
    assert again["03_attention"].hints == 2 and again["03.3"] == progress["03.3"]
    table = tomllib.loads((tmp_path / "progress.toml").read_text(encoding="utf-8"))
    assert table["version"] == 1 and "nothing" not in table


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("version = 99\n", "newer minigpt"),
        ("[", "damaged"),
        ("", "damaged"),
        ('version = 1\n["x"]\ny = 1\n', "damaged"),
    ],
)
def test_a_damaged_or_newer_progress_file_is_refused_and_kept(tmp_path, text, says):
    path = tmp_path / "progress.toml"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(InputError, match=says):
        commands.status(StatusOptions(folder=str(tmp_path)))
    assert path.read_text(encoding="utf-8") == text


def test_status_counts_what_is_done_and_says_what_is_next(tmp_path, capsys):
    assert typed("status", "--folder", tmp_path) == 0
    said = capsys.readouterr().out
    assert "0 of 153 exercises are done" in said or "0 of " in said
    assert f"Next: minigpt learn start 00 --folder {tmp_path}   (30 minutes to read)" in said
    assert max(map(len, said.splitlines())) <= 100 + len(str(tmp_path))
    progress = Progress.load(tmp_path)
    for exercise in course.lesson("00").exercises:
        progress[exercise.key].solved = "2026-01-01"
        progress[exercise.key].answer_seen = True
    progress.save()
    typed("status", "--folder", tmp_path)
    said = capsys.readouterr().out
    assert " 5 / 5 " in said and "Next: minigpt learn start 01" in said


# --- hints and answers -----------------------------------------------------------------------------------------------


def test_each_call_shows_one_more_hint(tmp_path, capsys):
    shown = []
    for _ in range(4):
        commands.hint(HelpOptions(lesson="06", exercise="06_rmsnorm.py", folder=str(tmp_path)))
        shown.append(capsys.readouterr().out)
    hints = course.hints_of(course.exercise_of("06_rmsnorm"))
    for n, text in zip((1, 2, 3, 3), shown, strict=True):
        assert f"hint {n} of 3:" in text
        assert " ".join(hints[n - 1].split()) in " ".join(text.split())


def test_an_answer_needs_an_honest_try(tmp_path, capsys):
    options = AnswerOptions(lesson="03", exercise="0", folder=str(tmp_path))
    with pytest.raises(InputError, match="0 failed checks of a changed file, and 2 are needed"):
        commands.answer(options)
    progress = Progress.load(tmp_path)
    progress["03_operations"].failed = 2
    progress.save()
    commands.answer(options)
    assert "minigpt/ops/reference/attention.py" in capsys.readouterr().out


def test_an_open_question_is_answered_first(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr("sys.stdin", __import__("io").StringIO(""))
    with pytest.raises(InputError, match="answer first"):
        commands.answer(AnswerOptions(lesson="03", exercise="4", folder=str(tmp_path)))
    commands.answer(AnswerOptions(lesson="03", exercise="4", mine="they are all equal", folder=str(tmp_path)))
    said = capsys.readouterr().out
    assert "they are all equal" in said and course.answer_of(course.exercise_of("03.4"))[:40] in said
    progress = Progress.load(tmp_path)
    assert commands.is_done(progress, course.exercise_of("03.4"))


def test_the_first_that_is_not_done_is_meant_where_none_is_named(tmp_path, capsys):
    progress = Progress.load(tmp_path)
    progress["03_operations"].solved = "2026-01-01"
    progress.save()
    commands.hint(HelpOptions(lesson="03", folder=str(tmp_path)))
    assert "lesson 03, exercise 1, hint 1" in capsys.readouterr().out


# --- what helps ------------------------------------------------------------------------------------------------------


def test_the_advice_names_the_line_and_what_it_is_made_of():
    text = "def f_backward(dout, cache):\n    x, r = cache\n    a = dout * r\n    dx = a * np.sum(x)\n    return dx\n"
    advice = what_to_print(text, Finding("f", "x", "wrong", (0, 1), 2.0, 0.5))
    assert advice[0] == "Print this below line 4, in f_backward:"
    assert '    print("dx", dx.shape, dx[0, 1])' in advice
    assert '    print("a", np.shape(a))' in advice and '    print("x", np.shape(x))' in advice
    assert "should be 0.5" in advice[-1]
    assert what_to_print(text, Finding("f", "w", "wrong")) == []


def test_a_small_model_writes_a_line_with_a_right_operation():
    module = type("module", (), {})()
    for way in ("forward", "backward"):
        setattr(module, f"gelu_{way}", getattr(reference, f"gelu_{way}"))
    assert line_of_text(module) == VERSE


def test_a_small_model_writes_nothing_like_it_with_a_wrong_one():
    module = type("module", (), {})()
    module.layernorm_forward = reference.layernorm_forward
    module.layernorm_backward = lambda dout, cache: tuple(-one for one in reference.layernorm_backward(dout, cache))
    assert line_of_text(module) != VERSE


def test_an_operation_that_no_small_model_calls_writes_nothing():
    module = type("module", (), {})()
    for way in ("forward", "backward"):
        setattr(module, f"cosine_loss_{way}", getattr(reference, f"cosine_loss_{way}"))
    assert line_of_text(module) == ""


def test_a_finding_as_json_has_no_nan():
    finding = Finding("gelu 2x3", "x", "the scale is missing", (0, 1), 1.0, 0.5)
    assert finding.as_json()["ratio"] == 2.0
    empty = json.loads(json.dumps(Finding("f", "", "m").as_json(), allow_nan=False))
    assert empty["yours"] is None and empty["ratio"] is None
    assert np.isnan(Finding("f", "x", "m", (), 1.0, 0.0).ratio)

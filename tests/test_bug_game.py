"""The museum as a game, `minigpt learn bug`: every piece can be played, and no file gives its mistake away."""

import re
import tomllib
from pathlib import Path

import numpy as np
import pytest
from helpers import each
from korean import has_hangul, latin
from test_solutions import BY_LIBRARY, solution

from minigpt import ops
from minigpt.cli import main
from minigpt.jobs.check import pair_of
from minigpt.learn.classroom import bug
from minigpt.learn.classroom.progress import Progress
from minigpt.learn.judging import check_file
from minigpt.learn.judging.check_file import watched
from minigpt.learn.museum import pieces as museum
from minigpt.learn.museum import training
from minigpt.learn.museum.levels import measured, trials
from minigpt.learn.museum.pieces import Piece, as_module, choices, piece
from minigpt.learn.museum.source import right_source
from minigpt.learn.museum.training import curve
from minigpt.learn.sandbox.lending import lent_to
from minigpt.learn.sandbox.process import Child
from minigpt.learn.sandbox.remote import RemoteFile
from minigpt.ops import reference
from minigpt.ops.cases import cases

PIECES = museum.pieces()
QUICK = "SoftmaxAverageOfTheColumn"
QUICK_OPERATIONS = ("softmax", "embedding", "layernorm", "gelu", "dropout")  # in the quick tests
every_piece = pytest.mark.parametrize("one", PIECES, ids=lambda one: one.name)
for_every_piece = each("one", PIECES)
OF_EACH_OPERATION = list({one.op: one for one in PIECES}.values())
of_each_operation = pytest.mark.parametrize("one", OF_EACH_OPERATION, ids=lambda one: one.op)
IN_EXERCISES = {op for op in ops.names for name in BY_LIBRARY if f"def {op}_backward" in solution(name)}
IN_NO_EXERCISE = [one for one in OF_EACH_OPERATION if one.op not in IN_EXERCISES]


def named(name: str) -> Piece:
    return next(one for one in PIECES if one.name == name)


@pytest.fixture
def short(monkeypatch):
    """The small models train for 12 updates in place of 120, and their curves are not rendered."""
    monkeypatch.setattr(training, "STEPS", 12)
    monkeypatch.setattr(training, "TRAINING", training.TRAINING._replace(steps=12))
    monkeypatch.setattr("minigpt.plot._write", lambda figure, path: path.write_bytes(b""))


@pytest.fixture
def play(tmp_path, capsys):
    """Types `minigpt learn bug …` in a folder; returns (exit status, what was printed)."""

    def typed(*words: str):
        status = main(["learn", "bug", *words, "--folder", str(tmp_path)])
        said = capsys.readouterr()
        return status, said.out + said.err

    return typed


def names_in(title: str) -> set[str]:
    """Code in backticks, words with a capital or a sign of arithmetic, such as LayerNorm and 1/sqrt(D), and tensors."""
    words = set(re.findall(r"`[^`]+`|\w[\w^/()]*", title, re.ASCII))
    short = {"x", "g", "b", "w", "p", "r", "h", "c", "u", "dx", "tanh", "rstd", "rate"}
    return {word for word in words if word in short or re.search(r"[`A-Z^/()]|[a-z]\d", word)}


def right_choice(one: Piece) -> int:
    return choices(one).index(one) + 1


# --- what is handed out ----------------------------------------------------------------------------------------------


@for_every_piece
def test_a_file_does_not_give_its_mistake_away(one):
    for word in (one.name, one.title, one.expects, "reference", "wrong", "mistake"):
        assert word not in one.wrong, word
    assert "minigpt" not in re.sub(r"from minigpt(\.ops\.random_keys)? import (ops|keep_mask)", "", one.wrong)


@for_every_piece
def test_the_lines_are_those_that_differ_from_the_right_file(one):
    wrong, right = one.wrong.splitlines(), one.right.splitlines()
    new = {number for number, line in enumerate(wrong, start=1) if line not in right and line.strip()}
    assert new <= one.lines() and 1 <= len(one.lines()) <= 16
    neighbours = set(zip(right, right[1:], strict=False))
    for number in one.lines() - new:  # a line that was moved, or one beside lines that are missing
        around = wrong[number - 2 : number + 1]
        assert not {tuple(around[:2]), tuple(around[1:])} <= neighbours, number


@for_every_piece
def test_six_names_are_offered_and_one_is_right(one):
    offered = choices(one)
    assert offered == choices(one), "the same each time"
    assert len({other.title for other in offered}) == 6 and offered.count(one) == 1
    of_the_same = [other for other in PIECES if other.op == one.op]
    assert len([other for other in offered if other.op == one.op]) == min(3, len(of_the_same))


def test_the_right_answer_has_no_place_of_its_own():
    places = [right_choice(one) for one in PIECES]
    assert all(10 <= places.count(number) <= 30 for number in range(1, 7))


@for_every_piece
def test_titles_and_numbers_are_good_to_read(one):
    assert PIECES[one.number - 1] is one and 1 <= one.level <= 4
    assert one.title[0] == one.title[0].lower() or one.title[0].isdigit()
    assert not one.title.endswith(".") and len(one.title) <= 100


@for_every_piece
def test_the_korean_title_has_the_names_of_the_english_one(one):
    assert names_in(one.title_ko) == names_in(one.title)
    assert latin(one.title_ko) <= latin(one.title), "no other word in Latin letters"
    assert one.title_ko.endswith("니다") and one.title_ko == one.title_ko.strip() and len(one.title_ko) <= 100


def test_two_titles_are_equal_in_both_languages_or_in_none():
    assert len({one.title_ko for one in PIECES}) == len({one.title for one in PIECES}) > 100
    assert len({(one.title, one.title_ko) for one in PIECES}) == len({one.title for one in PIECES})


def test_every_level_has_pieces():
    counts = [sum(1 for one in PIECES if one.level == level) for level in bug.LEVELS]
    assert all(count >= 8 for count in counts) and sum(counts) == len(PIECES)


# --- levels are measured ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["CosineLossExchanged", "AttentionSign", "StretchDropped", "MaskUpsideDown"])
def test_a_level_is_what_is_measured(name):
    assert measured(named(name)).level == named(name).level


@pytest.mark.slow
@every_piece
def test_every_level_is_what_is_measured(one):
    assert measured(one).level == one.level


# --- the game --------------------------------------------------------------------------------------------------------


def test_a_whole_game(play, tmp_path):
    one = named(QUICK)
    at = ("--piece", str(one.number))
    status, said = play(*at)
    path = tmp_path / bug.file_of(one)
    assert status == 0 and path.read_text(encoding="utf-8") == one.wrong
    assert (tmp_path / f"{bug.key_of(one)}.png").stat().st_size > 10_000
    assert re.search(r"\n    x +[\d.]+e[+-]\d\d  wrong\n", said), "the table"
    assert re.search(r"A small GPT-2 trains with it to a loss of [\d.]+ in 120 updates; [\d.]+ is right\.", said)
    assert one.expects not in said and one.title not in said and "at [" not in said
    status, said = play("name")
    assert status == 0 and said.count("\n  ") == 6 and one.title in said
    status, said = play("name", str(right_choice(one) % 6 + 1))
    assert status == 1 and "No, it is not that" in said and one.title not in said
    status, said = play("line", "1")
    assert status == 2 and "first name" in said
    assert play("check")[0] == 2
    status, said = play("name", str(right_choice(one)))
    assert status == 0 and one.title in said
    (number,) = one.lines()
    assert play("check")[0] == 2, "the line comes first"
    assert play("line", "1")[0] == 1
    status, said = play("line", str(len(one.wrong.splitlines())))
    assert status == 1 and "softmax_backward" in said, "a hint after two misses"
    assert play("line", str(number))[0] == 0
    status, said = play("check")
    assert status == 1 and "mend it first" in said
    path.write_text(one.right, encoding="utf-8")
    status, said = play("check")
    assert status == 0 and "curve of the small GPT-2 is the right one" in said and "1 of 3 stars" in said
    play("name", str(right_choice(one) % 6 + 1), *at)
    progress = Progress.load(tmp_path)
    record = progress[bug.key_of(one)]
    assert record.solved and record.started and (record.tried, record.failed) == (1, 0)
    assert progress[f"{bug.key_of(one)}.line"].failed == 2 and progress[f"{bug.key_of(one)}.name"].failed == 1, (
        "once right, right"
    )
    assert f"of {len(PIECES)} bugs are mended, with 1 stars" in said


@pytest.mark.usefixtures("short")
def test_a_game_in_korean(play, tmp_path, monkeypatch):
    monkeypatch.setenv("MINIGPT_LANG", "ko")
    one = named(QUICK)
    said = play("--piece", str(one.number))[1]
    assert re.search(r"\n    x +[\d.]+e[+-]\d\d  틀림\n", said), "the table"
    assert "작은 GPT-2 모델이" in said and "wrong" not in said
    said = play("name")[1]
    listed = said.partition("\n")[2].splitlines()[:6]
    assert [line[5:] for line in listed] == [other.title_ko for other in choices(one)]
    assert f"맞습니다: {one.title_ko}." in play("name", str(right_choice(one)))[1]
    wrong = choices(one)[right_choice(one) % 6]
    assert f"아닙니다. 이 오류가 아닙니다: {wrong.title_ko}." in play("name", str(right_choice(one) % 6 + 1))[1]
    assert play("line", str(min(one.lines())))[0] == 0
    path = tmp_path / bug.file_of(one)
    path.write_text(one.wrong + "# tried\n", encoding="utf-8")
    status, said = play("check")
    assert status == 1 and "틀림        x" in said and "happy" not in said and "방향의 합이 0인데" in said
    path.write_text("x = 1\n", encoding="utf-8")
    assert "softmax_forward 또는 softmax_backward 함수가 없습니다" in play("check")[1]
    path.write_text(one.right, encoding="utf-8")
    status, said = play("check")
    assert status == 0 and "이제 작은 GPT-2 모델의 손실 곡선이 옳습니다." in said
    status, said = play("--piece", "0")
    assert status == 2 and "버그 0 없음" in said


@pytest.mark.usefixtures("short")
def test_a_training_that_fails_is_told_in_korean(capsys, monkeypatch):
    monkeypatch.setenv("MINIGPT_LANG", "ko")
    one = named("GradientOfTheRowsOnly")
    bug._show_curve(one, curve(one.op, one.module()), curve(one.op, as_module(one.right, one.op)))
    said = capsys.readouterr().out
    assert "모델이 이것으로 학습할 수 없습니다: ValueError: " in said and has_hangul(said.partition("Error: ")[2])


def test_three_stars_and_the_next_one(tmp_path):
    one = named(QUICK)
    progress = Progress(tmp_path)
    for key in (bug.key_of(one), f"{bug.key_of(one)}.name", f"{bug.key_of(one)}.line"):
        progress[key].solved = "2026-01-01"
    assert bug.stars_of(one, progress) == 3
    handed_out = []
    while True:
        following = bug._chosen(bug.BugOptions(folder=str(tmp_path)), progress)
        if following.level > 1:
            break
        handed_out.append(following)
        progress[bug.key_of(following)].solved = "2026-01-01"
    assert one not in handed_out
    assert {other.number for other in handed_out} | {one.number} == {x.number for x in PIECES if x.level == 1}
    assert bug._chosen(bug.BugOptions(folder=str(tmp_path), level=4), progress).level == 4


@pytest.mark.usefixtures("short")
def test_the_piece_that_was_begun_stays_and_a_file_too(tmp_path, capsys):
    one, other = named(QUICK), named("SoftmaxElementwise")
    progress = Progress(tmp_path)
    for begun in (other, one):
        bug.hand_out(begun, progress, tmp_path)
    options = bug.BugOptions(folder=str(tmp_path))
    assert bug._chosen(options, progress) == bug._at(options, progress) == one
    path = tmp_path / bug.file_of(other)
    path.write_text("# mine\n", encoding="utf-8")
    assert bug._at(options, progress) == other, "the one that is worked at"
    capsys.readouterr()
    bug.hand_out(other, progress, tmp_path)
    assert path.read_text(encoding="utf-8") == "# mine\n" and "stays as it is" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["solve"], "solve is no step: give next, name, line, check"),
        (["name"], "no bug was handed out yet"),
        (["check", "--piece", "3"], "bug 3 was not handed out yet"),
        (["--piece", "0"], "there is no piece 0"),
        (["--level", "5"], "there is no level 5"),
    ],
)
def test_a_wrong_command_is_told_in_a_line(play, words, says):
    status, said = play(*words)
    assert status == 2 and says in said and said.count("\n") == 1


@pytest.mark.parametrize("number", ["0", "7", "x", "-1", "²", ""])
def test_a_number_that_is_none_is_refused(number):
    with pytest.raises(bug.InputError, match="give 1 to 6"):
        bug._number(number, 6, "a name")


# --- every piece can be mended ---------------------------------------------------------------------------------------


def verdict(one: Piece, text: str, path, capsys) -> tuple[bool, str]:
    """What the judge says of a text as the mended file of this piece."""
    path.write_text(text, encoding="utf-8")
    happy = bug.mended(one, path, text)
    return happy, capsys.readouterr().out


@pytest.mark.usefixtures("short")
@pytest.mark.parametrize("name", [QUICK, "GeluWithoutTheCube", "GeluOutsideTheCache", "WritesIntoDout"])
def test_a_file_is_happy_only_when_it_is_mended(name, tmp_path, capsys):
    one = named(name)
    happy, said = verdict(one, one.wrong, tmp_path / "bug.py", capsys)
    assert not happy and "are not right" in said
    happy, said = verdict(one, one.right, tmp_path / "bug.py", capsys)
    assert happy and "is the right one now" in said


def until_one_is_wrong(trials, remote):
    """The trials of a file up to the first that is not happy: one is enough for the verdict."""
    for what, results in watched(trials, remote):
        yield what, results
        if any(result.word != "happy" for result in results):
            return


@pytest.mark.slow
@pytest.mark.parametrize("one", IN_NO_EXERCISE, ids=lambda one: one.op)
def test_the_right_file_of_every_operation_is_happy(one, tmp_path, capsys):
    """Of the others tests/test_learn_check.py shows it: the same judge is happy with their exercises' solutions."""
    assert verdict(one, one.right, tmp_path / "bug.py", capsys)[0]


@pytest.mark.slow
@of_each_operation
def test_no_file_is_happy_as_it_is_handed_out(one, tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(check_file, "watched", until_one_is_wrong)
    assert not verdict(one, one.wrong, tmp_path / "bug.py", capsys)[0]


def test_every_file_runs_in_the_learners_process(tmp_path):
    with Child() as child:
        for one in PIECES:
            file = RemoteFile(child, tmp_path / "bug.py", one.wrong)
            passes = (
                ("model_forward", "model_backward") if one.is_model else (f"{one.op}_forward", f"{one.op}_backward")
            )
            assert set(passes) <= set(file.signatures), one.name


@pytest.mark.parametrize("op", ops.names)
def test_a_right_file_gives_there_what_the_library_gives(op, tmp_path):
    case = next(cases(op, 0))
    _, true = case.run_both(*pair_of(reference, op), 0)
    with Child() as child:
        file = RemoteFile(child, tmp_path / "bug.py", right_source(op))
        child.lender.allowed = lent_to([op])
        _, mine = case.run_both(*pair_of(file.module, op), 0)
    for name, array in true.items():
        np.testing.assert_allclose(mine[name], array, rtol=1e-10, atol=1e-12)


@pytest.mark.usefixtures("short")
def test_a_file_that_is_no_pair_or_cannot_run_is_told(tmp_path, capsys):
    happy, said = verdict(named(QUICK), "x = 1\n", tmp_path / "bug.py", capsys)
    assert not happy and "softmax_forward or softmax_backward is missing" in said
    happy, said = verdict(named("HeadTwice"), "x = 1\n", tmp_path / "bug.py", capsys)
    assert not happy and "no function model_forward" in said
    happy, said = verdict(named(QUICK), "1 / 0\n", tmp_path / "bug.py", capsys)
    assert not happy and "cannot be run" in said


@pytest.mark.usefixtures("short")
def test_right_gradients_with_another_curve_are_not_enough(tmp_path, capsys, monkeypatch):
    one = named(QUICK)
    right = curve(one.op, as_module(one.right, one.op))
    other = right._replace(losses=[loss * 1.001 for loss in right.losses])
    monkeypatch.setattr(bug, "curve", lambda op, file: right if hasattr(file, "SoftmaxCache") else other)
    happy, said = verdict(one, one.right, tmp_path / "bug.py", capsys)
    assert not happy and "is not the right one" in said


# --- what is shown ---------------------------------------------------------------------------------------------------


def test_two_trainings_agree_and_a_mistake_does_not():
    right = as_module(right_source("softmax"), "softmax")
    best = curve("softmax", right)
    assert best.agrees(curve("softmax", right)) and best.last < 0.5 * best.losses[0]
    assert not curve("softmax", named(QUICK).module()).agrees(best)
    failed = curve("embedding", named("GradientOfTheRowsOnly").module())
    assert "ValueError" in failed.problem and failed.last == float("inf") and not failed.agrees(failed)


@pytest.mark.parametrize("one", [
    one if one.op in QUICK_OPERATIONS else pytest.param(one, marks=pytest.mark.slow) for one in OF_EACH_OPERATION
], ids=lambda one: one.op)  # fmt: skip
def test_the_check_of_every_operation_has_a_table(one, capsys):
    found = trials(one.op, one.module())
    bug._show_check(found)
    said = capsys.readouterr().out
    assert "wrong" in said or "suspicious" in said
    assert one.expects not in said


def test_the_number_of_a_piece_is_stable():
    assert piece(1).name == "GeluForgottenInTheMlp" and piece(116).name == "BiasAfterTheSoftmax"


def test_the_numbers_of_pieces_are_their_own():
    """They stand in the rooms, so that a new piece moves no other: progress files know a piece by its number."""
    numbers = [one.number for one in museum.pieces()]
    assert numbers == list(range(1, len(numbers) + 1))
    for file in Path(museum.__file__).parent.glob("*.toml"):
        assert all(type(about["number"]) is int for about in tomllib.loads(file.read_text(encoding="utf-8")).values())

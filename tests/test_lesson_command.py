"""`minigpt lesson`: prose, code and output cell by cell, a pause, and a way back."""

import builtins
import sys

import pytest

from minigpt import plot
from minigpt.cli.main import main
from minigpt.learn import lesson

TEXT = '''# %% [markdown]
# # Lesson 99: two numbers
#
# You will **add**.

# %%
first = 1
print("first is", first)

# %% [markdown]
# Now the sum.

# %%
print("sum", first + 2, __file__.endswith("99_sum.py"))
'''


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "99_sum.py"
    path.write_text(TEXT, encoding="utf-8")
    return path


def answers(monkeypatch, *given):
    """A terminal at which these lines are typed; then its end."""
    lines = iter(given)

    def read(prompt):
        print(prompt, end="")
        try:
            return next(lines)
        except StopIteration:
            raise EOFError from None

    monkeypatch.setattr(builtins, "input", read)
    monkeypatch.setattr(sys.stdin, "isatty", lambda: True, raising=False)


def test_a_lesson_from_beginning_to_end(file, capsys):
    assert main(["lesson", str(file)]) == 0
    out = capsys.readouterr().out
    assert "99_sum.py, cell 1 of 4\n\n# Lesson 99: two numbers\n\nYou will **add**.\n" in out
    assert '    first = 1\n    print("first is", first)\n\nfirst is 1\n' in out
    assert out.endswith("sum 3 True\n") and lesson.PAUSE not in out


def test_a_reader_stops_and_goes_on_where_they_stopped(file, capsys, monkeypatch):
    answers(monkeypatch, "", "q")
    assert main(["lesson", str(file)]) == 0
    out = capsys.readouterr().out
    assert out.count(lesson.PAUSE) == 2 and "first is 1" in out and "Now the sum" not in out
    assert out.splitlines()[-1].endswith(f"go on with: minigpt lesson {file} --cell 3")
    answers(monkeypatch, "", "")
    assert main(["lesson", str(file), "--cell", "3"]) == 0
    out = capsys.readouterr().out
    assert "first is" not in out and "cell 3 of 4" in out and "sum 3" in out
    assert out.count(lesson.PAUSE) == 1  # none after the last cell


def test_the_end_of_the_input_is_a_way_to_stop(file, capsys, monkeypatch):
    answers(monkeypatch)
    assert main(["lesson", str(file)]) == 0
    assert f"minigpt lesson {file} --cell 2" in capsys.readouterr().out


def test_a_cell_that_fails_shows_its_own_line(file, capsys):
    file.write_text(TEXT.replace("first + 2", "first + second"), encoding="utf-8")
    assert main(["lesson", str(file)]) == 1
    said = capsys.readouterr()
    assert "name 'second' is not defined" in said.err and "first + second" in said.err
    assert "learn/lesson.py" not in said.err
    assert said.out.endswith(f"the cell at line 14 of {file} has failed\n")


def test_what_does_not_exist_is_one_line(file, tmp_path, capsys):
    (tmp_path / "notes.md").write_text("text\n")
    for words, expected in (
        (["77"], "no lesson has the number or the file '77': give a file, or one of 00, 01, 02, 03"),
        ([str(file), "--cell", "5"], "--cell 5: 99_sum.py has 4 cells"),
        ([str(file), "--cell", "0"], "--cell"),
        ([str(tmp_path / "notes.md")], "has no cells: a lesson is a Python file"),
    ):
        assert main(["lesson", *words]) == 2
        error = capsys.readouterr().err
        assert expected in error and error.count("\n") == 1


def test_numbers_name_the_lessons_of_this_installation():
    assert lesson.find_lesson("3").name == lesson.find_lesson("03").name == "03_attention.py"


def test_pictures_of_a_lesson_lie_beside_its_file(file, capsys):
    file.write_text(TEXT + "\nfrom minigpt import plot\nplot.save(plot.plt.figure(), '99_a.png')\n", encoding="utf-8")
    assert main(["lesson", str(file)]) == 0
    assert (file.parent / "figures" / "99_a.png").is_file() and not plot.plt.get_fignums()

"""`minigpt lesson`: prose, code and output cell by cell, a pause, and a way back."""

import builtins
import sys

import pytest

from minigpt import plot
from minigpt.cli.main import main
from minigpt.learn import cells, lesson

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


PARTS = """# %% [markdown]
# # Lesson 99: a core

# %%
first = 1

# %% [markdown] tags=["deeper"]
# ## 2. Deep

# %%
raise ValueError("not in the core")

# %% [markdown] tags=["deeper"]
# ### Still deep

# %% [markdown]
# ## 3. The end

# %%
print("end", first)
"""


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


def test_of_a_cell_that_only_draws_the_lines_are_counted_and_it_runs(file, capsys):
    file.write_text(TEXT.replace("# %%\nfirst", '# %% tags=["hide-input"]\nfirst'), encoding="utf-8")
    assert main(["lesson", str(file)]) == 0
    out = capsys.readouterr().out
    assert "    (2 lines that draw)\n\nfirst is 1\n" in out and "first = 1" not in out and "sum 3" in out


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


def test_the_core_leaves_deeper_parts_out_and_says_so(file, capsys, monkeypatch):
    file.write_text(PARTS, encoding="utf-8")
    assert main(["lesson", str(file), "--core"]) == 0
    out = capsys.readouterr().out
    assert "left out: 2. Deep (1 minutes)" in out and "raise" not in out and "Still deep" not in out
    assert "cell 6 of 7" in out and "end 1\n" in out
    assert out.endswith("1 of 2 minutes were the core\n")
    assert main(["lesson", str(file)]) == 1  # the whole lesson runs them
    answers(monkeypatch, "q")
    assert main(["lesson", str(file), "--core", "--cell", "2"]) == 0
    assert f"go on with: minigpt lesson {file} --core --cell 3" in capsys.readouterr().out


def test_what_the_parts_of_a_lesson_are(file):
    file.write_text(PARTS, encoding="utf-8")
    found = cells.cells(file)
    assert cells.deeper_parts(found) == [range(2, 5)]
    assert [cell.title for cell in cells.core(found) if not cell.is_code] == ["Lesson 99: a core", "3. The end"]
    assert cells.minutes_of(cells.Cell(1, True, ["a = 1", "", "b = 2"])) == 2 / 8 + 0.5
    assert cells.minutes_of(cells.Cell(1, True, ["a = 1", "b = 2"], only_draws=True)) == 0.5
    assert cells.minutes_of(cells.Cell(1, False, ["# one two", "#", "# three"])) == 3 / 130


def test_a_deeper_part_begins_with_a_heading(file, capsys):
    for marked in ('# %% [markdown] tags=["deeper"]\n# no heading', '# %% tags=["deeper"]\n## 2. a comment'):
        file.write_text(f"{PARTS}\n{marked}\n", encoding="utf-8")
        assert main(["lesson", str(file)]) == 2
        assert f"{file}:23: a deeper part begins with a heading, in a cell of prose" in capsys.readouterr().err

"""Pictures: written to a file or said not to be, shown by a notebook, drawn from boxes and arrows."""

import math
import sys
import types

import numpy as np
import pytest

from minigpt import plot


def figure():
    drawn, axes = plot.plt.subplots()
    axes.plot([0, 1])
    return drawn


def test_a_picture_is_written_and_closed(tmp_path, capsys):
    path = plot.save(figure(), "a.png", tmp_path / "new")
    assert path.read_bytes().startswith(b"\x89PNG") and capsys.readouterr().out == f"picture: {path}\n"
    assert not plot.plt.get_fignums()


def test_a_folder_that_cannot_be_written_costs_no_more_than_the_picture(tmp_path, capsys):
    (tmp_path / "figures").write_text("a file")
    plot.save(figure(), "a.png", tmp_path / "figures")
    said = capsys.readouterr().out
    assert said.startswith("picture: not saved, for ") and said.count("\n") == 1 and "plot.save" in said
    assert not plot.plt.get_fignums()


def test_a_notebook_shows_the_picture_before_it_is_closed(tmp_path, monkeypatch):
    shown = []
    ipython = types.ModuleType("IPython")
    ipython.get_ipython = lambda: types.SimpleNamespace(kernel=True)
    ipython.display = types.SimpleNamespace(display=lambda drawn: shown.append(plot.plt.fignum_exists(drawn.number)))
    monkeypatch.setitem(sys.modules, "IPython", ipython)
    plot.save(figure(), "a.png", tmp_path)
    assert shown == [True]


def test_arrows_go_from_edge_to_edge():
    wide, high = plot.Box(0, 0, 4, 1), plot.Box(0, 5, 1, 2)
    assert plot._edge(wide, high) == (0, 0.5) and plot._edge(high, wide) == (0, 4)
    assert plot._edge(wide, (8, 2)) == (2, 0.5)  # through the corner of the box
    assert plot._edge((1, 1), wide) == (1, 1)


@pytest.mark.parametrize("bend", [0, 0.3, -0.3])
def test_the_text_of_an_arrow_stands_on_the_side_to_which_it_bends(bend):
    diagram = plot.Diagram(6, 3)
    diagram.arrow((1, 1), (5, 1), "6", bend=bend)
    (text,) = diagram.axes.texts
    x, y = text.get_position()
    assert x == 3 and math.copysign(1, 1 - y) == math.copysign(1, bend)  # to the right of the way is below
    plot.plt.close(diagram.figure)


def test_a_grid_has_every_number_and_the_largest_is_darkest():
    diagram = plot.Diagram(4, 3, "title")
    box = diagram.grid(2, 1.5, np.array([[1, 2.5, 0], [-4, 0.125, 3]]), "W")
    assert [text.get_text() for text in diagram.axes.texts] == ["1", "2.5", "0", "-4", "0.125", "3", "W"]
    shades = [sum(patch.get_facecolor()[:3]) for patch in diagram.axes.patches]
    assert int(np.argmin(shades)) == 3 and (box.width, box.height) == (1.5, 1.0)
    diagram.grid(2, 1.5, [["the", "cat"]])  # words have no size
    plot.plt.close(diagram.figure)


@pytest.fixture
def fonts(monkeypatch):
    """The fonts of a system: its usual one, which has no Hangul, and those that a test adds to this list."""
    installed = []
    letters = {"usual": set(range(256)), "korean": {ord(letter) for letter in "안녕하세요"}}
    manager = plot.plt.matplotlib.font_manager
    monkeypatch.setattr(manager, "findfont", lambda name: "usual")
    monkeypatch.setattr(manager, "fontManager", types.SimpleNamespace(ttflist=installed))
    monkeypatch.setattr(plot, "_letters_of", letters.get)
    monkeypatch.setitem(plot.plt.rcParams, "font.family", ["sans-serif"])
    return installed


def test_text_that_no_font_has_is_written_in_latin_letters(fonts):
    assert plot.readable("plain text, één") == "plain text, één"
    assert plot.readable("안녕 means hello") == "annyeong means hello"
    assert plot.readable("한글 닭 꽃 의 뷁") == "hangeul dak kkot ui bwek"
    assert plot.readable("中 ㄱ") == "U+4E2D U+3131"
    assert plot.plt.rcParams["font.family"] == ["sans-serif"]


def test_a_korean_font_that_is_installed_is_used(fonts):
    fonts.append(types.SimpleNamespace(name="A Font", fname="korean"))
    assert plot.readable("안녕") == "annyeong"  # not among those that are known to be Korean
    fonts.append(types.SimpleNamespace(name="NanumGothic", fname="korean"))
    assert plot.readable("안녕") == "안녕" and plot.plt.rcParams["font.family"] == ["sans-serif", "NanumGothic"]
    assert plot.readable("뷁 안녕") == "bwek annyeong"  # not in this font


def test_the_usual_font_has_latin_letters_and_may_lack_hangul():
    assert plot.readable("GPT-1 é ∂ α") == "GPT-1 é ∂ α"
    assert plot.readable("안녕") in ("안녕", "annyeong")

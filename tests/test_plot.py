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

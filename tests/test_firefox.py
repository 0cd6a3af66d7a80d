"""Firefox: the explorer by keys, with NumPy's numbers and a planted mistake; the mark of a lesson; no complaint.

What the pages do at all is tested in Chromium: `test_explorer_stage.py`, `test_machines.py`, `test_progress.py`.
"""

import json
import shutil
import sys
from html import escape
from pathlib import Path

import numpy as np
import pytest
from firefox import firefox

from minigpt import models
from minigpt.explorer import job
from minigpt.explorer.named_pass import named_pass
from minigpt.learn.lessons import find_lessons

SITE = Path(__file__).parent.parent / "lessons" / "site"
sys.path.append(str(SITE))

import course  # noqa: E402

pytestmark = pytest.mark.slow

NOW = "document.querySelector('#stage .part[data-now]')?.dataset.focus.split('.').slice(2).join('.') ?? null"
DRAWN = """(() => {
  const { parts, sizes } = window.minigptExplorer.drawn();
  return { names: parts.map((part) => part.name), value: sizes.value.map((row) => [...row]),
    gradient: sizes.gradient.map((row) => [...row]), targets: window.minigptExplorer.views()[0].targets };
})()"""


@pytest.fixture(scope="module")
def tab():
    with firefox() as running:
        yield running


@pytest.fixture
def own(tab):
    """The tab; at the end no page has complained, or asked for anything outside of the disk."""
    tab.requests.clear()
    tab.complaints.clear()
    yield tab
    assert tab.complaints == []
    assert [address for address in tab.requests if not address.startswith(("file:", "data:", "blob:"))] == []


def test_the_explorer_walks_by_keys_and_its_numbers_are_those_of_numpy(own, tmp_path):
    page = tmp_path / "explorer.html"
    job.explore(job.ExploreOptions(out=str(page)), say=lambda line: None)
    own.go(page.as_uri())
    own.size(1280, 900)
    assert own.evaluate("window.minigptExplorer.ready.then(() => true)")
    assert own.evaluate("document.documentElement.scrollWidth <= innerWidth"), "no box sticks out"
    own.size(390, 844)
    field = "document.querySelector('#text')"
    assert own.evaluate(f"{field}.scrollHeight <= {field}.clientHeight"), "the whole sentence is seen on a phone"
    own.size(1280, 900)
    drawn = own.evaluate(DRAWN)
    folder = find_lessons()["data/explorer/gpt1/model.safetensors"].parent
    model, tokenizer = models.open_both(folder, dtype=np.float64)
    done = named_pass(model, tokenizer.encode(job.SENTENCE), drawn["targets"])
    for k, name in enumerate(drawn["names"]):
        for kind, of_numpy in (("value", done.values[name].value), ("gradient", done.values[name].gradient)):
            np.testing.assert_allclose(drawn[kind][k], np.linalg.norm(of_numpy, axis=1), rtol=1e-9, atol=1e-15)

    own.evaluate("document.querySelector('#stage .part').focus()")
    own.press("Home")
    way = []
    for _ in range(2 * len(drawn["names"])):
        own.press("ArrowRight")
        way.append(own.evaluate(NOW))
    assert way == [*drawn["names"], *reversed(drawn["names"])]
    own.press("ArrowLeft")
    assert own.evaluate(NOW) == drawn["names"][1]

    own.evaluate("window.minigptExplorer.change({ mistake: 'RowSumDropped', at: 52 })")
    own.wait_for("document.querySelector('#stage .first-broken')?.dataset.focus.endsWith('.h.3.attn')")


def test_a_lesson_is_marked_by_a_key_and_the_mark_is_there_on_another_page(own, tmp_path):
    shutil.copy(SITE / "static" / "progress.js", tmp_path / "progress.js")
    words = " ".join(f'{name}="{escape(value)}"' for name, value in course.progress("ko").items())
    text = f"""<!doctype html><meta charset="utf-8"><title>x</title><nav class="sidebar-tree">
    <a href="03_attention.html">03</a></nav><article><h1>x</h1><div class="facts">읽기 60분</div></article>
    <script src="../progress.js" {words}></script>"""
    (tmp_path / "lessons").mkdir()
    for name in ("03_attention", "09_adam"):
        (tmp_path / "lessons" / f"{name}.html").write_text(text, encoding="utf-8")
    own.go((tmp_path / "lessons" / "03_attention.html").as_uri())
    own.evaluate("document.querySelector('.mark-read').focus()")
    own.press("Space")
    assert own.evaluate("document.querySelector('.mark-read').ariaPressed") == "true"
    own.go((tmp_path / "lessons" / "09_adam.html").as_uri())
    assert own.evaluate("document.querySelector('.is-read').ariaLabel") == "읽음"


@pytest.mark.parametrize("name", ["adam", "rotary", "sampling", "scores", "viterbi"])
def test_a_little_machine_draws_and_its_sliders_move_by_keys(own, name, tmp_path):
    machines = pytest.importorskip("machines", reason="nbformat is not installed (extra site)")
    shutil.copytree(SITE / "static" / "machines", tmp_path / "_static" / "machines")
    block = machines.block(name, machines.all_machines()[name]["ko"])
    (tmp_path / "lessons").mkdir()
    page = tmp_path / "lessons" / "page.html"
    page.write_text(f'<!doctype html><meta charset="utf-8"><title>x</title><body>{block}', encoding="utf-8")
    own.go(page.as_uri())
    said = "document.querySelector('.machine svg').outerHTML + document.querySelector('.machine .said').textContent"
    before = own.evaluate(said)
    own.evaluate("document.querySelector('.machine input').focus()")
    own.press("ArrowRight")
    own.press("ArrowLeft")
    own.press("ArrowLeft")
    assert own.evaluate(said) != before, json.dumps(before[:200])

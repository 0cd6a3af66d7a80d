"""The little machines on the pages: their numbers are those of the library, and they speak both languages."""

import json
import re
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from minigpt import ops
from minigpt.models import sampling
from minigpt.models.family import rotary
from minigpt.nn.module import Parameter
from minigpt.nn.optim import AdamW
from minigpt.tokenizer.unigram import Unigram

ROOT = Path(__file__).parent.parent
SITE = ROOT / "lessons" / "site"
FOLDER = SITE / "static" / "machines"
sys.path.append(str(SITE))
nbformat = pytest.importorskip("nbformat", reason="nbformat is not installed (extra site)")

import machines  # noqa: E402
from browser import chromium, watched  # noqa: E402

STYLES = (("site", "all"), ("print", "print"))
ALL = machines.all_machines()
needs_node = pytest.mark.skipif(shutil.which("node") is None, reason="node is not installed")


def compute(name: str, *settings: dict) -> list[dict]:
    """What a machine computes for these settings of its sliders."""
    files = [str(FOLDER / f"{part}.js") for part in ("machine", name)]
    calls = json.dumps([[name, values] for values in settings])
    command = ["node", str(Path(__file__).with_suffix("").with_name("machines.mjs")), *files]
    done = subprocess.run(command, input=calls, capture_output=True, encoding="utf-8", timeout=60)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def constant(name: str, machine: str):
    """A list or a table that stands in the file of a machine."""
    text = (FOLDER / f"{machine}.js").read_text(encoding="utf-8")
    found = re.search(rf"^const {name} = ([\[{{].*?[\]}}]);", text, re.MULTILINE | re.DOTALL).group(1)
    return json.loads(re.sub(r",\s*}", "}", re.sub(r"(\w+):", r'"\1":', found)))


@needs_node
def test_what_is_left_is_what_the_library_would_draw_from():
    logits = np.array([constant("LOGITS", "sampling")])
    settings = [
        {"temperature": t, "top_k": k, "top_p": p}
        for t in (0.1, 0.7, 1, 3)
        for k in (1, 4, 10)
        for p in (0.05, 0.6, 0.95, 1)
    ]
    for values, found in zip(settings, compute("sampling", *settings), strict=True):
        left = sampling.keep_top_k(logits / values["temperature"], values["top_k"])
        p = sampling.probabilities(sampling.keep_nucleus(left, values["top_p"]))[0]
        assert found["drawn"] == pytest.approx(p, abs=1e-12), values
        assert found["entropy"] == pytest.approx(-sum(one * np.log(one) for one in p if one), abs=1e-12)
    assert {sum(one > 0 for one in compute("sampling", settings[i])[0]["drawn"]) for i in (0, -1)} == {1, 10}


@needs_node
@pytest.mark.parametrize("betas", [(0.9, 0.999), (0, 0.5), (0.99, 0.9)])
def test_the_way_down_the_valley_is_adam_s(betas):
    steep = np.array(constant("STEEP", "adam"))
    (found,) = compute("adam", {"rate": -1.3, "beta1": betas[0], "beta2": betas[1]})
    point = Parameter(np.array([1.0, 1.0]))
    optimizer = AdamW([("point", point)], betas=betas, eps=1e-8, weight_decay=0)
    way = [point.data.copy()]
    for _ in range(len(found["path"]) - 1):
        point.grad = steep * point.data
        optimizer.step(10**-1.3)
        way.append(point.data.copy())
    assert np.array(found["path"]) == pytest.approx(np.array(way), rel=1e-9, abs=1e-12)
    assert found["loss"] == pytest.approx(50 * way[-1][0] ** 2 + way[-1][1] ** 2 / 2)


@needs_node
def test_the_shares_of_the_keys_are_the_softmax_of_their_scores_and_division_keeps_them_apart():
    raw, divided = compute("scores", {"size": 8, "divided": 0}, {"size": 8, "divided": 1})
    assert np.array(raw["scores"]) / 16 == pytest.approx(np.array(divided["scores"])), "the square root of 256"
    for found in (raw, divided):
        p, cache = ops.softmax_forward(np.array([found["scores"]]))
        assert found["p"] == pytest.approx(p[0], abs=1e-12)
        assert found["ds"] == pytest.approx(ops.softmax_backward(np.array([found["dp"]]), cache)[0], abs=1e-12)
        assert found["looks"] == pytest.approx(np.exp(-(p * np.log(np.maximum(p, 1e-300))).sum()))
    assert raw["looks"] < 1.1 and divided["looks"] > 3
    sizes = [{"size": size, "divided": 1} for size in range(4, 11)]
    spread = [np.std(found["scores"]) for found in compute("scores", *sizes)]
    assert 0.4 < min(spread) and max(spread) < 2, "about 1 for every D: the numbers are normal"


@needs_node
def test_the_product_of_turned_arrows_is_that_of_rope():
    d = 64
    x = np.zeros((1, 61, 1, d))
    x[..., : d // 2] = 1  # each pair is the arrow (1, 0)
    angles = np.arange(61)[:, None] * rotary.frequencies(d, 10000.0)
    turned, _ = ops.rope_forward(x, cos=np.cos(angles), sin=np.sin(angles))
    turned = turned[0, :, 0]
    settings = [{"query": 12, "key": 9}, {"query": 60, "key": 0}, {"query": 7, "key": 7}, {"query": 0, "key": 30}]
    for values, found in zip(settings, compute("rotary", *settings), strict=True):
        product = turned[values["query"]] @ turned[values["key"]] / (d // 2)
        assert (
            found["product"] == pytest.approx(product, abs=1e-6)
            and found["distance"] == values["query"] - values["key"]
        )
        for pair in found["pairs"]:
            tip = turned[values["query"], [pair["pair"], pair["pair"] + d // 2]]
            assert [np.cos(pair["of_query"]), np.sin(pair["of_query"])] == pytest.approx(tip, abs=1e-6)


@needs_node
@pytest.mark.parametrize("changes", [{}, {"lowe": 0.5}, {"est": 0.01}, {"low": 0.01, "lowe": 0.02}])
def test_the_likeliest_way_is_that_of_unigram(changes):
    pieces = constant("PIECES", "viterbi")
    asked = {name: pieces[name] for name in ("low", "lowe", "est")} | changes
    found = compute("viterbi", *({"place": place, **asked} for place in range(7)))
    probabilities = pieces | asked
    tokenizer = Unigram(["<unk>", *probabilities], [0.0, *np.log(list(probabilities.values()))], unknown_id=0)
    for place, one in enumerate(found):
        assert one["way"] == [tokenizer.tokens[i] for i in tokenizer.encode("lowest"[:place])]
        assert one["best"][-1] == pytest.approx(sum(np.log(probabilities[piece]) for piece in one["way"]))


def test_the_lattice_is_that_of_the_lesson():
    text = (ROOT / "lessons" / f"{ALL['viterbi']['lesson']}.py").read_text(encoding="utf-8")
    said = re.search(r"^P = (\{.*?\})", text, re.MULTILINE | re.DOTALL).group(1)
    assert json.loads(re.sub(r",\s*}", "}", said)) == constant("PIECES", "viterbi")


@pytest.mark.parametrize("name", ALL)
def test_a_machine_is_small_and_has_a_picture_for_paper_and_words_in_both_languages(name):
    machine = ALL[name]
    code = (FOLDER / f"{name}.js").read_text(encoding="utf-8")
    assert len(code.encode()) + (FOLDER / "machine.js").stat().st_size < 30_000
    lesson = (ROOT / "lessons" / f"{machine['lesson']}.py").read_text(encoding="utf-8")
    assert f'"{machine["below"]}"' in lesson
    sliders = set(re.findall(r"{ name: \"(\w+)\"", code))
    drawn = set(re.findall(r"words\.(\w+)", code))
    assert set(machine["en"]) == set(machine["ko"]) == sliders | drawn | {"title", "says"}
    for language in ("en", "ko"):
        assert set(re.findall(r"\{(\w+)\}", machine[language]["says"])) == spoken(code), language


def spoken(code: str) -> set[str]:
    """The names that `says` of a machine gives to its sentence."""
    returned = re.search(r"  says\(.*?return \{(.*?)\};", code, re.DOTALL).group(1)
    return set(re.findall(r"(?:^|,)\s*(\w+)", re.sub(r"\([^()]*\)", "", returned)))


def test_the_page_has_the_machine_below_its_picture():
    draws, text = (
        nbformat.v4.new_code_cell('plot.save(figure, "09_paths.png")'),
        nbformat.v4.new_markdown_cell("After it."),
    )

    def cells_with_machines(lesson: str, *cells) -> list[str]:
        notebook = nbformat.v4.new_notebook(cells=list(cells))
        machines.add_to(notebook, lesson, "ko")
        return [cell.source for cell in notebook.cells]

    before, made, after = cells_with_machines("09_adam", draws, text)
    assert (before, after) == (draws.source, text.source)
    assert 'hidden data-machine="adam"' in made and "학습률" in made
    assert cells_with_machines("00_gradients", text) == [text.source]
    with pytest.raises(ValueError, match=r"no cell of 09_adam saves 09_paths\.png"):
        cells_with_machines("09_adam", text)


def test_a_page_has_one_machine_at_most():
    lessons = [machine["lesson"] for machine in ALL.values()]
    assert len(set(lessons)) == len(lessons), "machine.js would be loaded twice"


@pytest.fixture(scope="module")
def browser():
    with chromium() as running:
        yield running


@pytest.mark.slow
@pytest.mark.parametrize("name", ALL)
def test_in_a_browser_every_slider_moves_by_keys_and_paper_shows_no_machine(name, browser, tmp_path):
    shutil.copytree(SITE / "static", tmp_path / "_static")
    (tmp_path / "lessons").mkdir()
    page = tmp_path / "lessons" / "page.html"
    styles = "".join(f'<link rel="stylesheet" href="../_static/{name}.css" media="{media}">' for name, media in STYLES)
    block = machines.block(name, ALL[name]["ko"])
    page.write_text(f'<!doctype html><meta charset="utf-8">{styles}<body>{block}', encoding="utf-8")
    with watched(browser, width=390) as watch:
        watch.page.goto(page.as_uri())
        machine = watch.page.locator(".machine")
        for i in range(machine.locator("input").count()):
            seen = []
            for key in ("Home", "End"):
                machine.locator("input").nth(i).press(key)
                seen.append(machine.locator("svg").inner_html())
            assert seen[0] != seen[1], f"slider {i}"
        assert machine.locator(".said").inner_text() and "{" not in machine.inner_text()
        assert watch.page.evaluate("document.documentElement.scrollWidth") <= 390
        watch.page.emulate_media(media="print")
        assert not machine.is_visible()
        assert not watch.complaints and not watch.elsewhere("file:")

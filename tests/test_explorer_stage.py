"""The first screen of the explorer: the model, drawn; a pass that is played through it; what a click opens in place."""

import dataclasses
from pathlib import Path

import numpy as np
import pytest
import small_family
from browser import chromium
from explorer_visits import settled, visits

from minigpt import GPT2, GPT2Config, models
from minigpt.explorer import job, page
from minigpt.explorer.named_pass import named_pass
from minigpt.learn.lessons import find_lessons
from minigpt.tokenizer import GPT2Tokenizer

pytestmark = pytest.mark.slow

NAMES = ("gpt1", "gpt2")
AT = "() => window.minigptExplorer.state.at"
DRAWN = """() => {
  const { parts, sizes, shape } = window.minigptExplorer.drawn();
  return { parts, shape, value: sizes.value.map((row) => [...row]), gradient: sizes.gradient.map((row) => [...row]) };
}"""
DOTS = """(places) => {
  const canvas = document.querySelector("#stage canvas");
  const pen = new OffscreenCanvas(canvas.width, canvas.height).getContext("2d", { willReadFrequently: true });
  pen.drawImage(canvas, 0, 0);
  return places.map(([x, y]) => [...pen.getImageData(x, y, 1, 1).data.slice(0, 3)]);
}"""
BROKEN = """() => [...document.querySelectorAll("#stage .part.broken")].map((one) =>
  one.dataset.focus.split(".").slice(2).join("."))"""
WRONG = """(mistake) => {
  const { views, runPass } = window.minigptExplorer;
  const [{ model, ids, targets }] = views();
  const right = runPass(model, ids, { targets });
  const wrong = runPass(model, ids, { targets, mistake });
  const differs = (name) => {
    const [a, b] = [right, wrong].map((pass) => pass.values.get(name).gradient.data);
    return a.some((number, i) => Math.abs(number - b[i]) > 1e-6 * Math.max(Math.abs(number), 1e-3));
  };
  return [...right.values.keys()].filter(differs);
}"""
CONTRAST = """() => {
  const pen = new OffscreenCanvas(1, 1).getContext("2d", { willReadFrequently: true });
  const over = (colours) => {
    pen.clearRect(0, 0, 1, 1);
    for (const colour of colours) { pen.fillStyle = colour; pen.fillRect(0, 0, 1, 1); }
    return [...pen.getImageData(0, 0, 1, 1).data.slice(0, 3)];
  };
  const linear = (c) => (c <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4);
  const light = (rgb) => rgb.reduce((sum, c, i) => sum + linear(c / 255) * [0.2126, 0.7152, 0.0722][i], 0);
  const behind = (one) => (one ? [...behind(one.parentElement), getComputedStyle(one).backgroundColor] : ["white"]);
  const found = [];
  for (const one of document.querySelectorAll("header *, .reading *, #stage *, #questions *, .how *")) {
    const hasText = [...one.childNodes].some((node) => node.nodeType === 3 && node.textContent.trim());
    if (!hasText || !one.checkVisibility() || one.tagName === "OPTION") continue;
    const ground = behind(one);
    const [a, b] = [over([...ground, getComputedStyle(one).color]), over(ground)].map(light);
    const ratio = (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
    found.push([ratio, `${one.className || one.tagName}: ${one.textContent.slice(0, 30)}`]);
  }
  return found.sort((x, y) => x[0] - y[0]);
}"""


@pytest.fixture(scope="module")
def page_file(tmp_path_factory) -> Path:
    out = tmp_path_factory.mktemp("page") / "explorer.html"
    job.explore(job.ExploreOptions(out=str(out)), say=lambda line: None)
    return out


@pytest.fixture(scope="module")
def browser():
    with chromium() as running:
        yield running


@pytest.fixture
def visit(browser, page_file):
    """`visit()`: the page, see `visits`."""
    with visits(browser, page_file) as open_page:
        yield open_page


def choose(page, **choices) -> None:
    """Choose something, and wait until it is drawn."""
    page.evaluate("(choices) => window.minigptExplorer.change(choices)", choices)
    settled(page)


def opened(which: int):
    folder = find_lessons()[f"data/explorer/{NAMES[which]}/model.safetensors"].parent
    return models.open_both(folder, dtype=np.float64)


def parts_of(which: int) -> list[str]:
    """The parts of the two models in the order of their forward pass, as the papers have them."""
    post = ("attn", "x_attn", "ln_1", "mlp", "x_mlp", "ln_2")
    pre = ("ln_1", "attn", "x_attn", "ln_2", "mlp", "x")
    blocks = [f"h.{i}.{part}" for i in range(4) for part in (post, pre)[which]]
    return ["x", *blocks, *(["ln_f"] if which else []), "logits"]


def now(page) -> str | None:
    """The part that the pass is in."""
    found = page.locator("#stage .part[data-now]")
    return found.get_attribute("data-focus").split(".", 2)[2] if found.count() else None


# --- numbers ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("which", [0, 1])
def test_the_sizes_that_are_drawn_are_those_of_numpy(visit, which):
    page = visit()
    choose(page, shown=str(which))
    drawn = page.evaluate(DRAWN)
    assert [part["name"] for part in drawn["parts"]] == parts_of(which)
    model, tokenizer = opened(which)
    ids = tokenizer.encode(job.SENTENCE)
    done = named_pass(model, ids, page.evaluate("() => window.minigptExplorer.views()[0].targets"))
    for k, part in enumerate(drawn["parts"]):
        both = done.values[part["name"]]
        np.testing.assert_allclose(drawn["value"][k], np.linalg.norm(both.value, axis=1), rtol=1e-9)
        np.testing.assert_allclose(drawn["gradient"][k], np.linalg.norm(both.gradient, axis=1), rtol=1e-9, atol=1e-15)


def colours_of(page, name: str):
    """The colour of a scale at a part from 0 to 1, from its colours in the style."""
    stops = page.evaluate(
        "(name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim().split(' ')", name
    )
    rgb = [[int(stop[i : i + 2], 16) for i in (1, 3, 5)] for stop in stops]
    return lambda part: [np.interp(part * (len(rgb) - 1), range(len(rgb)), [c[i] for c in rgb]) for i in range(3)]


@pytest.mark.parametrize("dark", [False, True])
@pytest.mark.parametrize("which", [0, 1])
def test_the_stream_has_the_colours_of_its_sizes_forward_and_backward(visit, which, dark):
    """Between two blocks nothing covers the stream: there each token's band is looked at."""
    page = visit(dark=dark)
    choose(page, shown=str(which), at=0)
    drawn = page.evaluate(DRAWN)
    last_of_blocks = [k for k, part in enumerate(drawn["parts"]) if part["name"] in parts_of(which)[6:25:6]][:3]
    row, lane, places = (drawn["shape"][key] for key in ("row", "lane", "places"))
    spots = [(k, t) for k in last_of_blocks for t in range(24)]
    dots = [[int(places[k]["to"] + 4), int(lane + (t + 0.5) * row)] for k, t in spots]
    before = page.evaluate(DOTS, dots)
    end = len(drawn["parts"])
    for kind, name, at in (("value", "--scale-up", end), ("gradient", "--scale-back", 2 * end)):
        choose(page, at=at)
        at_part = colours_of(page, name)
        most = max(max(sizes) for sizes in drawn[kind][:-1])
        for (k, t), dot, nothing in zip(spots, page.evaluate(DOTS, dots), before, strict=True):
            part = drawn[kind][k][t] / most
            if part == 0:
                assert dot == nothing, "no gradient, no band"
                continue
            spread = np.sqrt(part) if kind == "value" else np.clip(1 + np.log10(part) / 3, 0.04, 1)
            assert np.abs(np.array(dot) - at_part(0.22 + 0.78 * spread)).max() <= 2, (kind, k, t)


PAIRS = """() => window.minigptExplorer.drawn().pairs.value.map((_, k) => ["value", "gradient"].map((which) => {
  const { strength } = window.minigptExplorer.drawn().pairs[which][k] ?? {};
  return strength ? [...strength] : null;
}))"""


@pytest.mark.parametrize("which", [0, 1])
def test_the_lines_of_attention_are_the_mean_weight_of_the_heads_and_the_norm_of_the_gradient_of_scores(visit, which):
    page = visit()
    choose(page, shown=str(which))
    model, tokenizer = opened(which)
    ids = tokenizer.encode(job.SENTENCE)
    done = named_pass(model, ids, page.evaluate("() => window.minigptExplorer.views()[0].targets"))
    found = dict(zip(parts_of(which), page.evaluate(PAIRS), strict=True))
    for i in range(4):
        weights, gradients = (np.reshape(numbers, (len(ids), len(ids))) for numbers in found[f"h.{i}.attn"])
        np.testing.assert_allclose(weights, done.values[f"h.{i}.attn.p"].value.mean(axis=0), atol=1e-12)
        norms = np.linalg.norm(done.values[f"h.{i}.attn.s"].gradient, axis=0)
        np.testing.assert_allclose(gradients, norms, rtol=1e-8, atol=1e-15)


def test_a_line_leads_back_to_an_earlier_token_and_to_a_later_one_only_by_a_mistake(visit):
    """Two tokens: two fifths of the way along each of the two lines between them."""
    page = visit()
    choose(page, text="a b", position=0, at=0)
    spots = page.evaluate("""() => {
      const { shape, parts } = window.minigptExplorer.drawn();
      const { from, to } = shape.places[parts.findIndex((part) => part.name === "h.0.attn")];
      const [start, end] = [from + 3, to - 9];
      const x = 0.216 * start + 0.72 * ((start + end) / 2) + 0.064 * end;
      const y = (share) => shape.lane + (0.5 + share) * shape.row;
      return [[Math.floor(x), Math.floor(y(0.352))], [Math.floor(x), Math.floor(y(0.648))]];
    }""")
    nothing = page.evaluate(DOTS, spots)
    choose(page, at=26)
    back, forth = page.evaluate(DOTS, spots)
    assert back != nothing[0] and np.abs(np.subtract(forth, nothing[1])).max() <= 3
    choose(page, mistake="NotCausal")
    assert np.abs(np.subtract(page.evaluate(DOTS, spots)[1], nothing[1])).max() > 10


# --- walking and playing ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("which", [0, 1])
def test_keys_reach_every_step_of_the_way_and_each_is_named(visit, which):
    page = visit()
    choose(page, shown=str(which))
    page.locator("#stage .part").nth(0).focus()
    page.keyboard.press("Home")
    assert page.evaluate(AT) == 0 and now(page) is None
    parts = parts_of(which)
    way, lines = [], []
    for _ in range(2 * len(parts)):
        page.keyboard.press("ArrowRight")
        way.append(now(page))
        lines.append(page.locator(".stage-line").inner_text())
        focused = page.evaluate("() => document.activeElement.dataset.focus.split('.').slice(2).join('.')")
        assert focused == way[-1], "the focus goes along"
    assert way == [*parts, *reversed(parts)]
    assert "gradient" not in " ".join(lines[: len(parts)]) and all("gradient" in line for line in lines[len(parts) :])
    assert "block 2, attention" in lines[parts.index("h.2.attn")] and "(24, 96)" in lines[parts.index("h.2.attn")]
    page.keyboard.press("ArrowRight")
    assert page.evaluate(AT) == 2 * len(parts), "there is nothing after the end"
    page.keyboard.press("ArrowLeft")
    assert now(page) == parts[1] and page.locator("#stage input").input_value() == str(2 * len(parts) - 1)
    page.keyboard.press("End")
    assert page.evaluate(AT) == 2 * len(parts)


def test_arrow_keys_walk_at_once_and_leave_the_text_and_the_menus_alone(visit):
    page = visit()
    assert page.evaluate(AT) == 46, "the page opens with the gradient on its way back"
    page.keyboard.press("ArrowRight")
    assert page.evaluate(AT) == 47
    for own in ("#text", "#stage-mistake", '[data-focus="token.3"]'):
        page.locator(own).focus()
        page.keyboard.press("ArrowLeft")
        assert page.evaluate(AT) == 47, own
    page.locator("#stage input").focus()
    page.keyboard.press("ArrowLeft")
    assert page.evaluate(AT) == 46
    assert page.locator("#stage input").get_attribute("aria-valuetext") == page.locator(".stage-line").inner_text()


def test_the_first_link_leads_to_the_play(visit):
    page = visit()
    page.keyboard.press("Tab")
    page.keyboard.press("Enter")
    assert page.evaluate("() => document.activeElement.dataset.focus") == "stage.play"


def test_play_goes_forward_and_back_and_can_be_stopped(visit):
    page = visit(still=True)
    page.click('[data-focus="stage.play"]')
    found = []
    for _ in range(8):
        page.clock.run_for(400)
        found.append(page.evaluate(AT))
    assert found == sorted(found) and found[0] > 0 and any(at % 1 for at in found), "it moves between the parts, too"
    page.click('[data-focus="stage.play"]')
    stopped = page.evaluate(AT)
    page.clock.run_for(1000)
    assert page.evaluate(AT) == stopped < 26
    page.click('[data-focus="stage.play"]')
    page.clock.run_for(12_000)
    assert page.evaluate(AT) == 52 and now(page) == "x"
    assert "Play" in page.locator('[data-focus="stage.play"]').inner_text()
    page.click('[data-focus="stage.play"]')
    page.clock.run_for(400)
    assert page.evaluate(AT) < 10, "once more from the beginning"


def test_who_wants_no_movement_gets_steps(visit):
    page = visit(still=True, reduced_motion="reduce")
    page.click('[data-focus="stage.play"]')
    found = set()
    for _ in range(40):
        page.clock.run_for(100)
        found.add(page.evaluate(AT))
    assert len(found) > 5 and all(at == int(at) for at in found)


def test_the_bars_are_the_probabilities_and_on_the_way_back_the_gradient_of_the_scores(visit):
    page = visit()
    choose(page, at=26)
    model, tokenizer = opened(0)
    ids = tokenizer.encode(job.SENTENCE)
    target, position = (
        page.evaluate(f"() => window.minigptExplorer.views()[0].{key}") for key in ("target", "position")
    )
    logits, _ = model.forward(np.array([ids]))
    p = np.exp(logits[0, position] - logits[0, position].max())
    p /= p.sum()
    right = page.locator("#stage .answer li.right .bar-number")
    assert right.inner_text() == f"{100 * p[target]:.0f} %"
    choose(page, at=27)
    assert right.inner_text() == f"▲ {1 - p[target]:.3f}"
    others = page.locator("#stage .answer li:not(.right) .bar-number").all_inner_texts()
    assert others[0] == f"▼ {np.sort(np.delete(p, target))[-1]:.3f}"
    choose(page, at=0)
    assert right.inner_text() == "–", "nothing is computed yet"


# --- mistakes --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("mistake", "which", "first"),
    [("RowSumDropped", 0, "h.3.attn"), ("RowSumDropped", 1, "h.3.attn"), ("GeluForgottenInTheMlp", 1, "h.3.mlp"),
     ("AssignsRows", 0, "x"), ("AssignsRows", 1, "x"), ("OneHotForgotten", 1, "logits")],
)  # fmt: skip
def test_a_mistake_rings_the_boxes_whose_gradient_is_wrong_as_far_as_the_pass_has_come(visit, mistake, which, first):
    page = visit()
    parts = parts_of(which)
    choose(page, shown=str(which), mistake=mistake, at=len(parts))
    assert page.evaluate(BROKEN) == [], "the forward pass is right"
    tables = ("tokens", "positions", "wte", "wpe")
    of_part = [name for name in page.evaluate(WRONG, mistake) if name]
    wrong = {part for part in parts for name in of_part if name == part or name.startswith(f"{part}.")}
    wrong |= {"x"} if any(name.startswith(tables) for name in of_part) else set()
    choose(page, at=2 * len(parts))
    assert set(page.evaluate(BROKEN)) == wrong and first in wrong
    assert page.locator("#stage .first-broken").get_attribute("data-focus").endswith(f".{first}")
    said = page.locator("#stage .break").inner_text()
    assert f"Wrong in {len(wrong)} of {len(parts)} boxes" in said
    came = parts.index(first)
    choose(page, at=2 * len(parts) - came - 1)
    assert page.evaluate(BROKEN) == [], f"the gradient has not come back to {first}"
    choose(page, at=2 * len(parts) - came)
    assert page.evaluate(BROKEN) == [first]
    assert "wrong" in page.locator("#stage .broken").get_attribute("aria-label")
    choose(page, mistake=None)
    assert page.evaluate(BROKEN) == [] and page.locator("#stage .break").count() == 0


def test_a_mistake_is_planted_below_the_drawing(visit):
    page = visit()
    page.select_option("#stage-mistake", "RowSumDropped")
    page.wait_for_function("() => document.querySelector('#stage .break')")
    assert len(page.evaluate(BROKEN)) > 10, "the whole way back is drawn at once"


def test_a_mistake_of_the_forward_pass_that_leaves_every_gradient_right_rings_nothing(visit):
    page = visit()
    choose(page, mistake="NotCausal", at=52)
    assert page.evaluate(BROKEN) == [] and "No gradient is wrong" in page.locator("#stage .break").inner_text()


# --- what a click opens ----------------------------------------------------------------------------------------------


def test_a_box_opens_its_numbers_below_the_drawing_and_gives_them_back(visit):
    page = visit()
    opened_by = {"h.2.attn": ("attention", "block 2"), "h.1.mlp": ("inspect", "h.1.mlp"), "logits": ("lens", "next")}
    for part, (panel, said) in opened_by.items():
        page.locator(f'[data-focus="stage.m0.{part}"]').click()
        body = page.locator(f"#opened #{panel} .body")
        body.locator("> *").first.wait_for()
        page.wait_for_function("(said) => document.querySelector('#opened').innerText.includes(said)", arg=said)
        assert page.locator("#opened > section").count() == 1
    page.wait_for_function("() => document.activeElement.tagName === 'H2'")
    page.keyboard.press("Escape")
    assert page.locator("#opened").is_hidden()
    assert page.evaluate("() => document.activeElement.dataset.focus") == "stage.m0.logits"
    order = page.evaluate("() => [...document.querySelectorAll('#panels > section')].map((one) => one.id)")
    assert tuple(order) == job.PANELS
    page.keyboard.press("Enter")
    page.locator("#opened #lens").wait_for()
    page.locator('nav a[href="#lens"]').click()
    page.locator("#panels #lens").wait_for()


def test_a_token_of_the_drawing_is_chosen_and_a_bar_asks_for_a_target(visit):
    page = visit()
    page.click('[data-focus="stage.token.4"]')
    settled(page)
    page.keyboard.press("ArrowDown")
    settled(page)
    assert page.evaluate("() => window.minigptExplorer.views()[0].position") == 5
    bar = page.locator("#stage .answer li:not(.right) button").first
    name = bar.locator(".bar-name").inner_text()
    bar.click()
    settled(page)
    assert page.locator("#stage .answer li.right .bar-name").inner_text() == f"◎ {name}"


# --- on every screen -------------------------------------------------------------------------------------------------


def test_on_a_telephone_the_drawing_turns_and_the_page_scrolls_only_down(visit):
    page = visit(width=390, height=844, has_touch=True, is_mobile=True)
    for text in (job.SENTENCE, "a b", "Anna had a red ball and a blue kite. " * 30):
        for which in ("0", "1", "both"):
            for at in (0, 14, 40):
                choose(page, text=text, shown=which, at=at, position=0)
                assert page.evaluate("() => document.documentElement.scrollWidth") <= 390
        box = page.locator("#stage canvas").first.bounding_box()
        assert box["height"] > box["width"] and box["x"] + box["width"] <= 390
    choose(page, text=job.SENTENCE, shown="0")
    page.locator('[data-focus="stage.m0.h.1.attn"]').tap()
    page.locator("#opened #attention").wait_for()


def test_at_the_widths_between_nothing_is_cut(visit):
    for width in (700, 800, 900, 1024, 1440):
        page = visit(width=width)
        assert page.evaluate("() => document.documentElement.scrollWidth") <= width
        held = page.locator("#stage .scroll").evaluate("(box) => [box.scrollWidth, box.clientWidth]")
        assert held[0] <= held[1] + 1, width


@pytest.mark.parametrize("dark", [False, True])
@pytest.mark.parametrize("language", ["en", "ko"])
def test_every_text_of_the_first_screen_has_contrast(visit, dark, language):
    page = visit(dark=dark)
    page.click(f'[data-language="{language}"]')
    for choices in ({"at": 12}, {"at": 40, "mistake": "RowSumDropped"}):
        choose(page, **choices)
        found = page.evaluate(CONTRAST)
        assert len(found) > 60 and found[0][0] >= 4.5, found[:5]


def test_the_first_screen_is_a_picture_and_few_words(visit):
    for width, height in ((1280, 720), (390, 844)):
        page = visit(width=width, height=height)
        drawing = page.locator("#stage canvas").bounding_box()
        assert drawing["y"] < 0.5 * height
        paragraphs = page.locator("header p:visible, .reading p:visible, #stage p.stage-line:visible")
        lines = paragraphs.evaluate_all(
            "(all) => all.map((one) => one.offsetHeight / parseFloat(getComputedStyle(one).lineHeight))"
        )
        assert len(lines) == 2 and max(lines) <= 3.1


def test_on_paper_stands_the_drawing_without_its_buttons(visit):
    page = visit()
    page.emulate_media(media="print")
    assert page.locator(".stage-bar").is_hidden() and page.locator("#stage canvas").is_visible()
    assert page.locator("#stage canvas").bounding_box()["width"] <= 718, "A4 with margins of 1 cm"
    assert page.pdf()[:4] == b"%PDF"


def test_a_recorded_body_has_a_forward_pass_alone(visit, tmp_path):
    model, tokenizer = small_family.opened("bert", special=["[MASK]", "[CLS]", "[SEP]"])
    body = type(model)(dataclasses.replace(model.config, form="Model"), seed=3)
    body.save(tmp_path / "bert")
    tokenizer.save(tmp_path / "bert")
    out = tmp_path / "page.html"
    options = job.ExploreOptions(folder=str(tmp_path / "bert"), text="the cat sat on", out=str(out), record=True)
    job.explore(options, say=lambda line: None)
    page_of_body = visit(out)
    parts = page_of_body.locator("#stage .part").count()
    assert parts == 1 + 6 * body.config.n_layer and page_of_body.locator("#stage .answer").count() == 0
    page_of_body.keyboard.press("ArrowRight")
    assert page_of_body.evaluate(AT) == parts, "there is no way back"


@pytest.mark.parametrize("name", ["llama", "gpt_neox", "bert"])
def test_every_part_of_a_recorded_model_has_sizes(visit, tmp_path, name):
    special = ["[MASK]", "[CLS]", "[SEP]"] if name == "bert" else []
    model, tokenizer = small_family.opened(name, special=special) if special else small_family.opened(name)
    model.save(tmp_path / name)
    tokenizer.save(tmp_path / name)
    out = tmp_path / "page.html"
    options = job.ExploreOptions(folder=str(tmp_path / name), text="the cat sat on", out=str(out), record=True)
    job.explore(options, say=lambda line: None)
    drawn = visit(out).evaluate(DRAWN)
    assert len(drawn["parts"]) > 10
    for k, part in enumerate(drawn["parts"]):
        assert all(size is not None and size >= 0 for size in drawn["value"][k] + drawn["gradient"][k]), part


def test_a_drawing_of_many_blocks_scrolls_with_the_pass_in_its_own_box(visit, tmp_path):
    tokenizer = GPT2Tokenizer.train("the cat sat on the mat", 270, progress=False)
    config = GPT2Config(vocab_size=tokenizer.vocab_size, n_positions=16, n_embd=8, n_layer=12, n_head=2)
    GPT2(config, seed=1).save(tmp_path / "deep")
    tokenizer.save(tmp_path / "deep")
    out = tmp_path / "page.html"
    job.explore(job.ExploreOptions(folder=str(tmp_path / "deep"), text="the cat", out=str(out)), say=lambda line: None)
    page = visit(out)
    box = page.locator("#stage .scroll")
    ends = []
    for at in (1, 40, 74, 150):
        choose(page, at=at)
        ends.append(box.evaluate("(box) => [box.scrollLeft, box.scrollLeft + box.clientWidth, box.scrollWidth]"))
    assert ends[0][0] == ends[3][0] == 0 and 0 < ends[1][0] < ends[2][0] and ends[2][1] >= ends[2][2] - 1
    assert page.evaluate("() => document.documentElement.scrollWidth") <= 1280


def test_the_colours_of_the_stage_are_given_in_light_and_in_dark():
    style = page.read_text(page.STYLE)
    for name in ("--scale-back", "--stage-block", "--stage-wall", "--stage-look"):
        assert style.count(f"{name}:") == 2, name

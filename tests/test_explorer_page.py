"""The explorer's page in a browser: the same numbers as NumPy's in float64, nothing asked of a network, and usable."""

import base64
import dataclasses
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import small_family
from browser import chromium, watched
from explorer_visits import OPEN, settled, visits
from helpers import error

from minigpt import GPT1, GPT1Config, models, ops
from minigpt.explorer import job
from minigpt.explorer.named_pass import named_pass, watching
from minigpt.learn.lessons import find_lessons
from minigpt.tokenizer import CharTokenizer, GPT1Tokenizer, GPT2Tokenizer

pytestmark = pytest.mark.slow

TOLERANCE = 1e-10  # relative, of each tensor; what must be reached is 1e-4
FASTEST = 300  # milliseconds for forward and backward of 64 tokens
NAMES = ("gpt1", "gpt2")
LONG = "Anna had a red ball and a blue kite. " * 30
TEXTS = (
    "Once upon a time there was a girl named Anna.",
    "Max looked under the bed. The ball was not there!",
    "a b",
    "AAAAAAAAAAAAAAAAAAAA",
    "Don't say it's theirs, we'll see: they've 12 apples, 345 pears; I'd take 6,789.",
    "   three spaces   and\ttabs\n\nand lines\r\n at the end \n ",
    "def f(x):\n    return x ** 2  # a square\n",
    'https://example.org/?q=1&r=<b>"quoted"</b>',
    "<|endoftext|> is plain text here, and so is </script>",
    "😀😃 smile 🎈",
    "👩‍👩‍👧‍👦 family, 🇰🇷 flag, 👍🏽 thumb",
    "안녕하세요. 고양이가 있습니다.",
    "한국어와 English를 섞어 쓴 문장입니다 😺",
    "각 (two ways to write it: 각)",
    "café, naïve, Straße, Ångström, œuvre",
    "Привет, мир! Γειά σου, κόσμε.",
    "مرحبا بالعالم — שלום עולם",
    "日本語の文章、中国的文字。",
    "½ + ² = ⅷ? ١٢٣ \u00a0\u2003\u3000 \u200b\ufeff \x85 \x1c end",
)
ONCE = """([which, ids]) => {
  const { models, runPass } = window.minigptExplorer;
  const start = performance.now();
  runPass(models[which], ids, { targets: [...ids.slice(1), -100] });
  return performance.now() - start;
}"""
READ = """([which, ids, targets, activations]) => {
  const { models, runPass } = window.minigptExplorer;
  const packed = (numbers) => {
    const bytes = new Uint8Array(Float64Array.from(numbers).buffer);
    let text = "";
    for (let i = 0; i < bytes.length; i += 8192) text += String.fromCharCode(...bytes.subarray(i, i + 8192));
    return btoa(text);
  };
  const pass = runPass(models[which], ids, { targets });
  const found = {};
  for (const [name, kept] of pass.values) {
    if (!activations && kept.kind === "activation") continue;
    found[name] = { kind: kept.kind, shape: kept.value.shape, gradient: packed(kept.gradient.data) };
    if (kept.kind === "activation") found[name].value = packed(kept.value.data);
  }
  return { loss: pass.loss, logits: packed(pass.logits.data), names: [...pass.values.keys()], values: found };
}"""


def unpacked(text: str, shape: tuple[int, ...]) -> np.ndarray:
    return np.frombuffer(base64.b64decode(text), np.float64).reshape(shape)


def sixty_four_tokens() -> str:
    """A text of exactly 64 tokens."""
    return in_tokens(64)


def in_tokens(count: int) -> str:
    """The beginning of a long text that has so many tokens."""
    _, tokenizer = opened("gpt2")
    for end in range(len(LONG)):
        if len(tokenizer.encode(LONG[:end])) == count and len(tokenizer.encode(LONG[: end + 1])) > count:
            return LONG[:end]
    raise AssertionError(f"no beginning of the text has {count} tokens")


def opened(name: str):
    """A model of `data/explorer` in float64, and its tokenizer."""
    folder = find_lessons()[f"data/explorer/{name}/model.safetensors"].parent
    return models.open_both(folder, dtype=np.float64)


# --- the page in the browser -----------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def page_file(tmp_path_factory) -> Path:
    """The page of `minigpt explore`, as everybody gets it."""
    out = tmp_path_factory.mktemp("page") / "explorer.html"
    job.explore(job.ExploreOptions(out=str(out)), say=lambda line: None)
    return out


@pytest.fixture(scope="module")
def browser():
    """A running Chromium; without one these tests are skipped, or fail where MINIGPT_NEED_BROWSER is 1."""
    with chromium() as running:
        yield running


@pytest.fixture
def visit(browser, page_file):
    """`visit()`: the page, see `visits`."""
    with visits(browser, page_file) as open_page:
        yield open_page


@pytest.fixture(scope="module")
def numbers_page(browser, page_file):
    """One page for all comparisons of numbers."""
    with watched(browser) as watch:
        watch.page.goto(page_file.as_uri())
        assert watch.page.evaluate(OPEN)
        yield watch.page
        assert watch.elsewhere(page_file.as_uri()) == [] and watch.complaints == []


# --- numbers ---------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module", params=NAMES)
def pair(request):
    """(the number of a model on the page, the same model in float64, its tokenizer)"""
    return NAMES.index(request.param), *opened(request.param)


def cut(ids: list[int], model) -> list[int]:
    return ids[: model.config.n_positions]


@pytest.mark.parametrize("text", [*TEXTS, "64 tokens"])
def test_logits_loss_and_every_gradient_are_those_of_numpy_in_float64(numbers_page, pair, text):
    which, model, tokenizer = pair
    text = sixty_four_tokens() if text == "64 tokens" else text
    of_page = numbers_page.evaluate(
        "([which, text]) => window.minigptExplorer.models[which].tokenizer.encode(text)", [which, text]
    )
    assert of_page == {"ids": tokenizer.encode(text), "unknown": []}
    ids = cut(of_page["ids"], model)
    targets = [*ids[1:], -100]
    found = numbers_page.evaluate(READ, [which, ids, targets, True])
    done = named_pass(model, ids, targets)
    assert found["loss"] == pytest.approx(done.loss, rel=TOLERANCE)
    assert error(unpacked(found["logits"], done.logits.shape), done.logits) < TOLERANCE
    parameters = dict(model.named_parameters())
    assert set(found["names"]) == {*done.values, *parameters}
    for name, parameter in parameters.items():
        kept = found["values"][name]
        assert kept["kind"] == "parameter"
        assert error(unpacked(kept["gradient"], parameter.grad.shape), parameter.grad) < TOLERANCE, name
    for name, both in done.values.items():
        kept = found["values"][name]
        assert kept["kind"] == "activation" and tuple(kept["shape"]) == both.value.shape, name
        assert error(finite(unpacked(kept["value"], both.value.shape)), finite(both.value)) < TOLERANCE, name
        assert error(unpacked(kept["gradient"], both.gradient.shape), both.gradient) < TOLERANCE, name


def finite(scores: np.ndarray) -> np.ndarray:
    """Scores of the future are -infinity in both."""
    return np.where(np.isneginf(scores), 0.0, scores)


def test_a_loss_at_one_position_and_a_target_of_the_reader(numbers_page, pair):
    which, model, tokenizer = pair
    ids = tokenizer.encode(TEXTS[1])
    targets = [-100] * len(ids)
    targets[4] = 300
    found = numbers_page.evaluate(READ, [which, ids, targets, False])
    done = named_pass(model, ids, targets)
    assert found["loss"] == pytest.approx(done.loss, rel=TOLERANCE)
    for name, parameter in model.named_parameters():
        kept = unpacked(found["values"][name]["gradient"], parameter.grad.shape)
        assert error(kept, parameter.grad) < TOLERANCE, name


def test_the_lens_ends_in_the_head_and_a_finite_difference_agrees(numbers_page, pair):
    which, model, tokenizer = pair
    ids = tokenizer.encode(TEXTS[0])
    found = numbers_page.evaluate(
        """([which, ids]) => {
      const { models, runPass, lens, finiteDifference } = window.minigptExplorer;
      const targets = [...ids.slice(1), -100];
      const pass = runPass(models[which], ids, { targets });
      const layers = lens(models[which], pass);
      const last = [...layers.at(-1).data];
      const logits = [...pass.logits.data];
      const checked = [];
      for (const [name, kept] of pass.values) {
        if (name.endsWith("attn.s") || kept.kind === "parameter" && name.startsWith("h.1")) continue;
        const index = Math.floor(kept.value.data.length / 3);
        const { numeric, analytic } = finiteDifference(models[which], ids, targets, name, index);
        checked.push([name, numeric, analytic]);
      }
      return { layers: layers.length, last, logits, checked };
    }""",
        [which, ids],
    )
    assert found["layers"] == model.config.n_layer + 1
    logits = np.reshape(found["logits"], (len(ids), -1))
    e = np.exp(logits - logits.max(axis=1, keepdims=True))
    np.testing.assert_allclose(np.reshape(found["last"], logits.shape), e / e.sum(axis=1, keepdims=True), atol=1e-12)
    assert len(found["checked"]) > 40
    for name, numeric, analytic in found["checked"]:
        assert numeric == pytest.approx(analytic, rel=1e-5, abs=2e-9), name


def test_64_tokens_forward_and_backward_are_quick(numbers_page):
    """The best of five, in milliseconds of the page's own thread: what else the machine does is not counted."""
    ids = opened("gpt2")[1].encode(sixty_four_tokens())
    assert len(ids) == 64
    clock = numbers_page.context.new_cdp_session(numbers_page)
    clock.send("Performance.enable", {"timeDomain": "threadTicks"})

    def spent() -> float:
        metrics = clock.send("Performance.getMetrics")["metrics"]
        return next(1000 * one["value"] for one in metrics if one["name"] == "TaskDuration")

    for which, name in enumerate(NAMES):
        times, by_the_clock = [], []
        for _ in range(6):  # the first one is compiled meanwhile
            before = spent()
            by_the_clock.append(numbers_page.evaluate(ONCE, [which, ids]))
            times.append(spent() - before)
        said = f"{name}: 64 tokens forward and backward in {min(times):.0f} ms; by the clock {min(by_the_clock):.0f}"
        print(said)
        assert 1 < min(times[1:]) < FASTEST, said


# --- a reader --------------------------------------------------------------------------------------------------------


def state(page, name: str) -> Any:
    return page.evaluate("(name) => window.minigptExplorer.state[name]", name)


def loss_shown(page) -> float:
    return page.evaluate("() => window.minigptExplorer.views()[0].pass.loss")


def loss_of(text: str, position: int, target: int | None = None) -> float:
    """By NumPy, with the first model of the page: -log p of one token after the position."""
    model, tokenizer = opened(NAMES[0])
    ids = tokenizer.encode(text)
    targets = [-100] * len(ids)
    targets[position] = ids[position + 1] if target is None else target
    loss, _ = model.loss(np.array([ids]), np.array([targets]), grad=False)
    return float(loss)


def into_sight(page, panel: str):
    """The body of a panel, which is drawn when it comes into sight; those above it may grow and push it away again."""
    body = page.locator(f"#{panel} .body")
    for _ in range(20):
        page.locator(f"#{panel}").evaluate("(one) => one.scrollIntoView()")
        page.wait_for_timeout(60)
        settled(page)
        top = page.locator(f"#{panel}").evaluate("(one) => one.getBoundingClientRect().top")
        if abs(top) < 200 and body.locator("> *").count():
            break
    assert body.locator("> *").count() > 0, f"{panel} is not drawn"
    return body


def test_the_contents_lead_to_their_panels(visit):
    """Panels are drawn when they come into sight: those above the one that was asked for must not push it away."""
    for width in (1280, 390):
        page = visit(width=width)
        for panel in ("inspect", "backward", "mistakes", "depth"):
            page.locator(f'nav a[href="#{panel}"]').click()
            page.wait_for_timeout(700)
            title = page.locator(f"#{panel} h2").evaluate("(one) => one.getBoundingClientRect().top")
            assert 0 <= title < 800, f"{panel} at {width}: its title stands at {title:.0f} px"


def test_a_token_is_chosen_by_click_and_by_keys_and_its_loss_is_shown(visit):
    page = visit()
    for place, act in (
        (3, lambda: page.click('[data-focus="token.3"]')),
        (4, lambda: page.keyboard.press("ArrowRight")),
    ):
        act()
        settled(page)
        button = page.locator(f'[data-focus="token.{place}"]')
        assert state(page, "position") == place and button.get_attribute("aria-pressed") == "true"
        assert page.evaluate("() => document.activeElement.dataset.focus") == f"token.{place}"
        assert loss_shown(page) == pytest.approx(loss_of(job.SENTENCE, place), rel=TOLERANCE)


def test_a_target_is_asked_for(visit):
    page = visit()
    body = into_sight(page, "lens")
    before = loss_shown(page)
    wrong = body.locator(".bars li:not(.right) button").first
    wrong.click()
    settled(page)
    target, position = state(page, "target"), state(page, "position")
    assert target is not None
    assert loss_shown(page) == pytest.approx(loss_of(job.SENTENCE, position, target), rel=TOLERANCE)
    assert loss_shown(page) != before


def test_a_planted_mistake_changes_gradients_and_a_finite_difference_finds_it(visit):
    page = visit()
    body = into_sight(page, "mistakes")
    assert page.evaluate("() => window.minigptExplorer.mistakes.length") >= 8
    name = page.evaluate("() => window.minigptExplorer.mistakes.find((one) => one.where === 'backward').name")
    body.locator("select").select_option(name)
    settled(page)
    rows = body.locator("table.changes tbody tr")
    assert state(page, "mistake") == name and rows.count() >= 1 and body.locator(".first-wrong").count() >= 1
    body.locator(".first-wrong button").first.click()
    page.locator("#mistakes .check.wrong .verdict").wait_for()
    body.locator("select").select_option("")
    settled(page)
    assert state(page, "mistake") is None and body.locator("table.changes").count() == 0


def test_a_mistake_of_the_forward_pass_is_marked_only_where_a_gradient_is_wrong(visit):
    page = visit()
    body = into_sight(page, "mistakes")
    body.locator("select").select_option("NotCausal")
    settled(page)
    body.locator('[data-focus^="all."]').click()
    settled(page)
    assert body.locator("table.changes tbody tr").count() > 50 and body.locator(".first-wrong").count() == 0
    assert "None of them is wrong" in body.inner_text()
    body.locator("table.changes button").first.click()
    page.wait_for_function("() => window.minigptExplorer.state.check?.verdict")
    assert state(page, "check")["verdict"] in ("happy", "noise", "zero")
    body.locator("select").select_option("BiasNotAdded")
    settled(page)
    assert body.locator(".first-wrong code").inner_text().endswith(".bias")
    body.locator(".first-wrong button").click()
    page.locator("#mistakes .check.wrong .verdict").wait_for()


def test_with_a_planted_mistake_the_sentences_of_the_steps_are_of_the_right_pass(visit):
    page = visit()
    sentence = into_sight(page, "backward").locator(".step-sentence.now")
    for mistake, said in (("OneHotForgotten", True), (None, False)):
        for step in (0, 1, 2, 5):
            page.evaluate("(choices) => window.minigptExplorer.change(choices)", {"mistake": mistake, "step": step})
            settled(page)
            assert ("in the right pass" in sentence.inner_text()) == said
    page.evaluate("() => window.minigptExplorer.change({ lossOf: 'all', step: 0 })")
    settled(page)
    assert "The last row has no target: it is exactly 0." in sentence.inner_text()
    last_row = "() => { const { values, logits } = window.minigptExplorer.views()[0].pass;"
    last_row += " return [...values.get('logits').gradient.row(logits.shape[0] - 1)]; }"
    assert not any(page.evaluate(last_row))


def test_every_planted_mistake_breaks_a_gradient_or_the_loss(numbers_page):
    found = numbers_page.evaluate("""() => {
      const { mistakes, models, runPass } = window.minigptExplorer;
      const rows = [];
      for (const mistake of mistakes) {
        let broken = 0;
        for (const model of models) {
          const { ids } = model.tokenizer.encode("Anna has a red ball .");
          const targets = [...ids.slice(1), -100];
          const right = runPass(model, ids, { targets });
          const wrong = runPass(model, ids, { targets, mistake: mistake.name });
          if (mistake.where === "backward" && right.loss !== wrong.loss) return `${mistake.name} changes the loss`;
          for (const [name, kept] of right.values) {
            const other = wrong.values.get(name).gradient.data;
            if (kept.gradient.data.some((number, i) => Math.abs(number - other[i]) > 1e-9)) broken += 1;
          }
        }
        rows.push([mistake.name, broken, mistake.title.ko, mistake.says.ko]);
      }
      return rows;
    }""")
    assert isinstance(found, list), found
    for name, broken, title, says in found:
        assert broken > 0 and has_hangul(title) and has_hangul(says), name


def has_hangul(text: str) -> bool:
    return any("가" <= character <= "힣" for character in text)


def test_a_finite_difference_of_a_number_by_keys_and_by_a_click(visit):
    page = visit()
    into_sight(page, "inspect")
    page.select_option("#tensor", "h.1.mlp.c_fc.weight")
    settled(page)
    page.locator("#inspect .map").first.focus()
    page.keyboard.press("ArrowDown")
    page.keyboard.press("ArrowRight")
    page.keyboard.press("Enter")
    verdict = page.locator("#inspect .check .verdict")
    verdict.wait_for()
    check = state(page, "check")
    model, _ = opened(NAMES[0])
    assert check["name"] == "h.1.mlp.c_fc.weight" and check["index"] == 4 * model.config.n_embd + 1
    assert check["verdict"] in ("happy", "noise")
    numeric, analytic = check["result"]["numeric"], check["result"]["analytic"]
    assert numeric == pytest.approx(analytic, rel=1e-5, abs=2e-9) and verdict.inner_text().strip()
    page.locator("#inspect .map").nth(1).click(position={"x": 30, "y": 40})
    page.wait_for_function("(before) => window.minigptExplorer.state.check.index !== before", arg=check["index"])
    page.wait_for_function("() => window.minigptExplorer.state.check.verdict")
    assert state(page, "check")["verdict"] in ("happy", "noise", "zero")


def test_a_hidden_attention_weight_is_not_checked_from_its_map_and_said_to_be_hidden(visit):
    page = visit()
    body = into_sight(page, "attention")
    body.locator(".map").first.focus()
    page.keyboard.press("ArrowRight")
    page.keyboard.press("Enter")
    settled(page)
    assert "it is hidden, p = 0" in body.locator(".readout").first.inner_text()
    assert state(page, "check") is None
    page.keyboard.press("ArrowLeft")
    page.keyboard.press("Enter")
    body.locator(".check .verdict").wait_for()
    assert "This weight is hidden" not in body.locator(".check").inner_text()
    body = into_sight(page, "inspect")
    page.select_option("#tensor", "h.0.attn.p")
    settled(page)
    body.locator(".map").first.focus()
    page.keyboard.press("ArrowRight")
    page.keyboard.press("Enter")
    body.locator(".check .verdict").wait_for()
    assert state(page, "check")["index"] == 1 and "This weight is hidden" in body.locator(".check").inner_text()


@pytest.mark.parametrize("text", ["고양이가 잠을 잡니다 😺", "Anna 👩‍👩‍👧 has a ball 🎈"])
def test_a_text_with_emoji_and_hangul_is_typed(visit, text):
    page = visit()
    page.click("#text")
    page.keyboard.press("ControlOrMeta+a")
    page.keyboard.insert_text(text)
    _, tokenizer = opened(NAMES[0])
    ids = tokenizer.encode(text)
    page.wait_for_function("(count) => document.querySelectorAll('#strip .token').length === count", arg=len(ids))
    assert page.evaluate("() => window.minigptExplorer.views()[0].ids") == ids
    assert loss_shown(page) == pytest.approx(loss_of(text, state(page, "position")), rel=TOLERANCE)


def test_a_text_that_is_too_long_and_one_that_is_empty_are_said(visit):
    page = visit()
    page.fill("#text", LONG)
    page.wait_for_function("() => document.querySelectorAll('#strip .token').length === 96")
    notes = page.locator("#notes .warning").inner_text()
    count = len(opened(NAMES[0])[1].encode(LONG))
    assert "96" in notes and str(count - 96) in notes.replace(",", "")
    page.fill("#text", "")
    page.locator("#strip .empty").wait_for()
    assert page.locator("#panels").is_hidden()


def test_both_models_are_shown_beside_each_other(visit):
    page = visit()
    page.evaluate("() => window.minigptExplorer.change({ shown: 'both' })")
    settled(page)
    assert page.evaluate("() => window.minigptExplorer.views().length") == 2
    for panel in ("lens", "attention", "stream", "backward", "inspect"):
        assert into_sight(page, panel).inner_text().strip(), panel


def test_depth_is_a_slider(visit):
    page = visit()
    into_sight(page, "depth")
    before = page.locator("#depth-charts").inner_text()
    page.locator("#depth-slider").focus()
    page.keyboard.press("Home")
    page.wait_for_function("(before) => document.querySelector('#depth-charts').innerText !== before", arg=before)


def test_depth_shows_five_draws_and_a_switch_for_the_projections(visit):
    page = visit()
    into_sight(page, "depth")
    charts = page.locator("#depth-charts")
    lines = charts.locator("svg").first.locator("path")
    assert lines.count() == 2 * (5 + 1), "five draws of two kinds, and their medians"
    charts_of = {}
    for projections in ("paper", "smaller", "equal"):
        before = charts.inner_text()
        page.select_option("#depth-projections", projections)
        if projections != "paper":
            page.wait_for_function("(old) => document.querySelector('#depth-charts').innerText !== old", arg=before)
        charts_of[projections] = charts.locator("li").all_inner_texts()
    first, second = zip(*charts_of.values(), strict=True)
    assert len(set(first)) == 2 and first[0] == first[2], "in GPT-1 they are smaller only where this is asked"
    assert len(set(second)) == 2 and second[0] == second[1], "in GPT-2 they are smaller in the paper"


def test_the_page_speaks_korean(visit):
    page = visit()
    english = page.title()
    page.click('[data-language="ko"]')
    settled(page)
    assert page.evaluate("() => document.documentElement.lang") == "ko" and page.title() != english
    left = page.evaluate("""() => [...document.querySelectorAll("[data-word]")]
      .filter((one) => one.textContent && !/[가-힣]/.test(one.textContent)).map((one) => one.dataset.word)""")
    assert left == [] and has_hangul(page.title())
    for panel in ("lens", "attention", "stream", "backward", "inspect", "mistakes", "depth"):
        assert has_hangul(into_sight(page, panel).inner_text()), panel
    with_korean_browser = visit(locale="ko-KR")
    assert with_korean_browser.evaluate("() => document.documentElement.lang") == "ko"


@pytest.mark.parametrize("dark", [False, True])
def test_a_telephone_scrolls_only_down(visit, dark):
    page = visit(width=390, height=780, has_touch=True, dark=dark)
    for panel in ("lens", "attention", "stream", "backward", "inspect", "mistakes", "depth"):
        into_sight(page, panel)
        assert page.evaluate("() => document.documentElement.scrollWidth") <= 390, panel
    page.tap('[data-focus="token.2"]')
    settled(page)
    assert state(page, "position") == 2


def test_a_browser_without_canvas_is_told_so(visit):
    page = visit(ready=False, script="HTMLCanvasElement.prototype.getContext = () => null;")
    problem = page.locator("#problem")
    problem.wait_for()
    assert "canvas" in problem.inner_text() and page.locator("main").is_hidden()


# --- other models ----------------------------------------------------------------------------------------------------


SAID = "the cat sat on the mat . a dog saw the cat ."
KINDS = {
    "characters": CharTokenizer.train(SAID),
    "words": GPT1Tokenizer.train(SAID, 60, pipeline="rules", progress=False),
    "bytes": GPT2Tokenizer.train(SAID, 270, progress=False),
}


def page_of(folder: Path, kind: str, record: bool, text: str = "The cat sat") -> tuple[Path, GPT1, Any]:
    """The page of a small model with a tokenizer of this kind, the model in float32, and the tokenizer."""
    tokenizer = KINDS[kind]
    config = GPT1Config(vocab_size=tokenizer.vocab_size, n_positions=16, n_embd=8, n_layer=2, n_head=2)
    GPT1(config, seed=1).save(folder, dtype="bfloat16")
    tokenizer.save(folder)
    out = folder / "page.html"
    options = job.ExploreOptions(folder=str(folder), text=text, out=str(out), record=record)
    options.text = options.text.lower() if kind == "characters" else options.text
    job.explore(options, say=lambda line: None)
    return out, *models.open_both(folder, dtype=np.float64)


@pytest.mark.parametrize("kind", KINDS)
def test_a_model_with_each_kind_of_tokenizer(visit, tmp_path, kind):
    out, model, tokenizer = page_of(tmp_path / kind, kind, record=False)
    page = visit(out)
    text = "the cat 고 sat"
    page.fill("#text", text)
    ids = [i for part in ("the cat ", " sat") for i in tokenizer.encode(part)] if kind == "characters" else None
    ids = ids or tokenizer.encode(text)
    page.wait_for_function("(ids) => String(window.minigptExplorer.views()[0].ids) === String(ids)", arg=ids)
    warned = kind != "bytes"
    assert page.locator("#notes .warning").count() == warned
    assert not warned or "고" in page.locator("#notes .warning").inner_text()
    targets = [-100] * len(ids)
    position = state(page, "position")
    targets[position] = page.evaluate("() => window.minigptExplorer.views()[0].target")
    assert loss_shown(page) == pytest.approx(named_pass(model, ids, targets).loss, rel=TOLERANCE)


def test_a_recorded_pass(visit, tmp_path):
    out, model, tokenizer = page_of(tmp_path / "model", "words", record=True)
    page = visit(out)
    ids = tokenizer.encode("the cat sat")
    done = named_pass(model, ids, [*ids[1:], -100])
    assert loss_shown(page) == pytest.approx(done.loss, rel=1e-5)
    assert page.locator("#text").get_attribute("readonly") is not None
    for panel in ("lens", "attention", "stream", "backward", "inspect", "mistakes"):
        assert into_sight(page, panel).inner_text().strip(), panel
    page.select_option("#tensor", "h.1.attn.p")
    settled(page)
    into_sight(page, "inspect")
    page.locator("#inspect .map").first.focus()
    page.keyboard.press("Enter")
    page.locator("#inspect .check").wait_for()
    assert state(page, "check")["refused"] is True, "a recorded pass has no finite difference, and says so"
    said = page.locator("body").inner_text()
    for wrong in ("too large", "All of it is computed here", "click a word that is not marked", "checks the number"):
        assert wrong not in said, f"a recorded page computes nothing, whatever the size of its model: {wrong}"
    assert "recorded by minigpt explore --record" in said


def test_a_recorded_pass_of_an_encoder(visit, tmp_path):
    """It says what is true of a model that sees both sides, in both languages, and marks no next token."""
    model, tokenizer = small_family.opened("bert", special=["[MASK]", "[CLS]", "[SEP]"])
    model.save(tmp_path / "bert")
    tokenizer.save(tmp_path / "bert")
    out = tmp_path / "page.html"
    options = job.ExploreOptions(folder=str(tmp_path / "bert"), text="the [MASK] sat on", out=str(out), record=True)
    job.explore(options, say=lambda line: None)
    page = visit(out)
    view = "window.minigptExplorer.views()[0]"
    assert page.evaluate(f"() => {view}.bothSides") is True
    ids, targets = page.evaluate(f"() => {view}.ids"), page.evaluate(f"() => {view}.targets")
    assert loss_shown(page) == pytest.approx(named_pass(model, ids, targets).loss, rel=1e-4)
    place = ids.index(tokenizer.ids["[MASK]"])
    page.click(f'[data-focus="token.{place}"]')
    settled(page)
    assert state(page, "position") == place and page.locator(".token.target").count() == 0
    assert page.evaluate(f"() => {view}.target") == targets[place]
    for panel in ("lens", "attention", "stream", "backward", "inspect"):
        assert into_sight(page, panel).inner_text().strip(), panel
    page.evaluate(f"() => ({view}.pass.values.get('h.0.attn.p').value.data[1] = 0)")
    into_sight(page, "attention").locator(".map").first.focus()
    page.keyboard.press("ArrowRight")
    assert "p = 0" in page.locator("#attention .readout").first.inner_text(), "a weight of 0 is not hidden here"
    said = page.locator("body").inner_text()
    assert "those before it, itself and those after it" in said and "The most probable words here" in said
    for wrong in ("next token", "A GPT has read", "comes after", "the tokens before it add up"):
        assert wrong not in said, wrong


@pytest.mark.parametrize(("name", "sums"), [("llama", 2), ("gpt_neox", 0)])
def test_a_recorded_pass_of_a_decoder_after_gpt2(visit, tmp_path, name, sums):
    """The walk back has a row for a sum between attention and MLP only where one lies there; its words are its own."""
    model, tokenizer = small_family.opened(name)
    model.save(tmp_path / name)
    tokenizer.save(tmp_path / name)
    out = tmp_path / "page.html"
    options = job.ExploreOptions(folder=str(tmp_path / name), text="the cat sat on", out=str(out), record=True)
    job.explore(options, say=lambda line: None)
    page = visit(out)
    view = "window.minigptExplorer.views()[0]"
    ids, targets = page.evaluate(f"() => {view}.ids"), page.evaluate(f"() => {view}.targets")
    assert loss_shown(page) == pytest.approx(named_pass(model, ids, targets).loss, rel=1e-4)
    for panel in ("lens", "attention", "stream", "backward", "inspect"):
        assert into_sight(page, panel).inner_text().strip(), panel
    walk = page.locator("#backward").text_content()  # of all steps, those in sight and those to come
    assert "Positions have no table" in walk and "GELU" not in walk and "LayerNorm" not in walk
    page.click('#backward [data-focus="step.all"]')
    settled(page)
    count = page.locator("#backward .step-count").inner_text()
    assert count.endswith("6 of 6"), "loss, head, two of each block, embedding"
    rows = page.evaluate(f"() => [...{view}.pass.values.keys()].filter((one) => one.endsWith('x_attn')).length")
    assert rows == sums


@pytest.mark.parametrize("language", ["en", "ko"])
def test_a_recorded_pass_of_a_body(visit, tmp_path, language):
    """It shows what a body has, says in one line what is left out, and speaks of it nowhere else."""
    model, tokenizer = small_family.opened("bert", special=["[MASK]", "[CLS]", "[SEP]"])
    body = type(model)(dataclasses.replace(model.config, form="Model"), seed=3)
    body.save(tmp_path / "bert")
    tokenizer.save(tmp_path / "bert")
    out = tmp_path / "page.html"
    options = job.ExploreOptions(folder=str(tmp_path / "bert"), text="the cat sat on", out=str(out), record=True)
    job.explore(options, say=lambda line: None)
    page = visit(out)
    page.click(f'[data-language="{language}"]')
    settled(page)
    panels = page.evaluate("() => [...document.querySelectorAll('#panels > section')].map((one) => one.id)")
    assert panels == ["attention", "stream", "inspect", "depth"]
    ids = page.evaluate("() => window.minigptExplorer.views()[0].ids")
    page.click('[data-focus="token.2"]')
    settled(page)
    assert state(page, "position") == 2 and page.locator(".token.target").count() == 0
    p = recorded_attention(body, ids)
    shown = page.evaluate("() => [...window.minigptExplorer.views()[0].pass.values.get('h.1.attn.p').value.data]")
    assert np.abs(np.array(shown).reshape(p.shape) - p).max() < 1e-3
    for panel in ("attention", "inspect"):
        into_sight(page, panel)
        assert page.locator(f"#{panel} .map").count() == 1, "the numbers, and no gradient beside them"
        page.locator(f"#{panel} .map").first.focus()
        page.keyboard.press("Enter")
        page.locator(f"#{panel} .check").wait_for()
        assert "null" not in page.locator(f"#{panel}").inner_text()
    chosen = {"en": "Chosen: “", "ko": "고른 토큰: “"}[language]
    assert page.locator(".strip-loss").inner_text().startswith(chosen)
    left_out = {"en": "This model has no head for words", "ko": "단어를 예측하는 출력 헤드가 없습니다"}[language]
    said = "".join(page.locator(part).all_inner_texts()[0] for part in ("header", ".reading", "#attention", "#inspect"))
    assert said.count(left_out) == 1
    words = {"en": ("gradient", "loss", "predict"), "ko": ("기울기", "손실", "정답")}[language]
    line = next(one for one in page.locator("#notes .warning").all_inner_texts() if left_out in one)
    for wrong in words:
        assert wrong not in said.replace(line, ""), wrong


def recorded_attention(body: Any, ids: list[int]) -> np.ndarray:
    """(NH,T,T), the weights of the last block."""
    with watching({"c_attn": body.h[-1].attn.c_attn}) as seen:
        body.hidden(np.array([ids]), grad=False)
    q, k, _ = np.split(seen["c_attn"].out, 3, axis=-1)
    q, k = (ops.split_heads(one, body.config.n_head) for one in (q, k))
    p, _ = ops.softmax_forward(q @ k.swapaxes(-1, -2) / np.sqrt(q.shape[-1]))
    return p[0]


@pytest.mark.parametrize("kind", KINDS)
def test_tokens_of_a_recorded_pass_are_written_as_those_of_a_live_one(visit, tmp_path, kind):
    """Half characters, tabs, and the end of a word: here a token is not written as the text that it stands for."""
    text = "the cat" if kind == "characters" else "the cat\tשל sat"
    shown = []
    for record in (False, True):
        out, _, _ = page_of(tmp_path / str(record), kind, record, text)
        page = visit(out)
        shown.append(page.locator("#strip .token").all_inner_texts())
        words = into_sight(page, "lens").locator(".bar-name").all_inner_texts()
        assert words and "\ufffd" not in str(words)
    assert shown[0] == shown[1] and shown[0]
    assert "\ufffd" not in str(shown) and "\t" not in str(shown)


MARKUP = (
    "</script><script>window.hit = 1</script>", "<img src=x onerror=window.hit=1>", "<!--<script>", "-->", "]]>",
    "<svg onload=window.hit=1>", "<style>*{display:none}</style>", "&lt;b&gt;", "{{7*7}} {n}", "$& ${window.hit=1}",
    "javascript:window.hit=1", "__proto__ constructor", "\"'`", "\u2028 \u202e \ufeff", "\0",
)  # fmt: skip
BUILT = """() => ({ hit: window.hit ?? null, scripts: document.scripts.length, images: document.images.length,
  styles: document.querySelectorAll("style").length, wide: document.documentElement.scrollWidth > innerWidth })"""


@pytest.mark.parametrize("record", [False, True])
def test_markup_in_a_text_in_tokens_and_in_the_name_of_a_model_stays_text(visit, tmp_path, record):
    """All tokens come from the markup; `visit` sees that nothing is loaded, and that the page does not complain."""
    tokenizer = CharTokenizer.train("".join(MARKUP))
    folder = tmp_path / "<img src=x onerror=window.hit=1>"
    GPT1(GPT1Config(vocab_size=tokenizer.vocab_size, n_positions=300, n_embd=8, n_layer=1, n_head=2)).save(folder)
    tokenizer.save(folder)
    text, out = "".join(MARKUP), tmp_path / "page.html"
    options = job.ExploreOptions(folder=str(folder), text=text, out=str(out), record=record)
    job.explore(options, say=lambda line: None)
    page = visit(out)
    into_sight(page, "lens")
    assert page.evaluate(BUILT) == {"hit": None, "scripts": 2, "images": 0, "styles": 1, "wide": False}
    assert page.locator("#text").input_value() == text
    tokens = page.locator("#strip .token").all_inner_texts()
    assert len(tokens) == len(text) and {"U+0000", "U+202E", "U+2028", "<", "␣"} <= set(tokens)


@pytest.mark.parametrize("text", ["Tom went to the park.", "안녕 & goodbye = 100 % #1", "<img src=x onerror=alert(1)>"])
def test_the_address_keeps_the_text_and_who_opens_it_sees_the_same(visit, text):
    first = visit()
    first.locator("#text").fill(text)
    first.wait_for_function("text => window.minigptExplorer.state.text === text", arg=text)
    first.locator("[data-language=ko]").click()
    second = visit()
    second.goto("about:blank")
    second.goto(first.url)
    assert second.evaluate(OPEN)
    seen = "[document.getElementById('text').value, document.documentElement.lang, [...minigptExplorer.views()[0].ids]]"
    assert second.evaluate(seen) == first.evaluate(seen) and second.evaluate(seen)[:2] == [text, "ko"]
    assert second.evaluate("document.images.length") == 0


ENDINGS = ("#lang=<img src=x>", "#lang=__proto__", "?lang=toString", "#%E0%A4%A", "#javascript:1")


@pytest.mark.parametrize("ending", ENDINGS)
def test_what_stands_behind_the_address_chooses_a_language_or_nothing(visit, page_file, ending):
    page = visit()
    page.goto("about:blank")
    page.goto(page_file.as_uri() + ending)
    assert page.evaluate(OPEN)
    assert page.evaluate("document.documentElement.lang") == "en" and page.locator("h1").inner_text().strip()


# --- on a telephone --------------------------------------------------------------------------------------------------


@pytest.fixture
def phone(visit):
    """The page on a screen that is only touched."""
    return visit(width=390, height=844, has_touch=True, is_mobile=True)


def tap_cell(page, box, across: float, down: float) -> None:
    """Touch a map at a place of its own box, in pixels."""
    box.scroll_into_view_if_needed()
    place = box.bounding_box()
    page.touchscreen.tap(place["x"] + across, place["y"] + down)
    settled(page)


def is_in_sight(page, element) -> bool:
    """Is its beginning on the screen, below the strip of tokens, which stays on top?"""
    top = element.bounding_box()["y"]
    return page.locator("#strip").bounding_box()["height"] - 2 <= top < 800


def test_an_answer_stands_below_the_map_that_was_tapped(phone):
    into_sight(phone, "inspect")
    half = phone.locator("#inspect .half").nth(1)
    again = half.locator(".map-again")
    assert not again.is_visible()
    tap_cell(phone, half.locator(".map"), 120, 60)
    again.locator("button").tap()
    half.locator(".check .verdict").wait_for()
    settled(phone)
    assert phone.locator(".check").count() == 1 and is_in_sight(phone, half.locator(".check"))


def test_an_answer_stands_below_the_row_of_a_mistake(phone):
    into_sight(phone, "mistakes")
    phone.select_option("#mistake", "RowSumDropped")
    settled(phone)
    rows = phone.locator("table.changes tbody tr")
    rows.nth(2).locator("button").tap()
    rows.nth(3).locator(".check .verdict").wait_for()
    settled(phone)
    assert is_in_sight(phone, rows.nth(3).locator(".check"))


def test_the_table_of_a_mistake_is_narrow_and_shows_the_first_rows_until_asked(phone):
    into_sight(phone, "mistakes")
    phone.select_option("#mistake", "RowSumDropped")
    settled(phone)
    widths = phone.locator(".of-changes").evaluate("(box) => [box.scrollWidth, box.clientWidth]")
    assert widths[0] <= widths[1]
    rows = phone.locator("table.changes tbody tr")
    assert rows.count() == 8
    assert "1.2" in rows.first.inner_text() and "relative difference" in rows.first.evaluate(
        "(row) => [...row.cells].map((cell) => getComputedStyle(cell, '::before').content).join()"
    )
    phone.locator('[data-focus^="all."]').tap()
    settled(phone)
    assert rows.count() == 81


def test_a_touched_screen_reads_of_taps_and_not_of_keys(phone, visit):
    for panel in ("lens", "attention", "backward", "inspect"):
        into_sight(phone, panel)
    hints = phone.locator(".map-hint").all_inner_texts()
    assert len(hints) >= 5
    assert all("ap a cell" in hint and "rrow keys" not in hint for hint in hints)
    with_keys = visit()
    into_sight(with_keys, "inspect")
    assert "rrow keys" in with_keys.locator("#inspect .map-hint").first.inner_text()


def test_the_gradient_begins_at_the_loss_and_nothing_moves_while_it_walks(phone):
    into_sight(phone, "backward")
    assert state(phone, "step") == 0 and phone.locator("#backward .step-count").inner_text() == "step 0 of 10"
    button = phone.locator('[data-focus="step.next"]')
    button.tap()
    settled(phone)
    places = []
    for _ in range(8):
        places.append([phone.locator(one).first.bounding_box()["y"] for one in ("#backward .map", ".stepper")])
        button.tap()
        settled(phone)
    assert places == [places[0]] * len(places)
    box = phone.locator("#backward .map").bounding_box()
    assert box["y"] + box["height"] <= 846 and phone.locator(".step-sentence.now").count() == 1
    sentence = phone.locator(".step-sentence.now").inner_text()
    assert "as in the attention of block 3" in sentence and "22 of 24" in sentence


def test_the_sign_of_the_target_stands_at_the_chosen_target(phone):
    body = into_sight(phone, "lens")
    marked = body.locator(".bars li.right .bar-name")
    other = body.locator(".bars li:not(.right) .bar-name").first.inner_text()
    assert marked.inner_text().startswith("◎ ") and body.locator(".half > .note").count() == 0
    body.locator(".bars li:not(.right) button").first.tap()
    settled(phone)
    assert marked.inner_text() == f"◎ {other}" and "✓" not in body.inner_text()
    line = phone.locator("#strip .strip-loss").inner_text()
    assert f"“{other}”" in line and f"{loss_shown(phone):.3f}" in line
    count = len(opened(NAMES[0])[1].encode(job.SENTENCE))
    phone.evaluate("(position) => window.minigptExplorer.change({ position, target: null })", count - 1)
    settled(phone)
    assert "no next token in your text" in body.locator(".half > .note").inner_text()


def test_another_tensor_is_not_read_at_the_cursor_of_the_one_before(phone):
    into_sight(phone, "inspect")
    tap_cell(phone, phone.locator("#inspect .map").first, 120, 60)
    assert "h.0.attn.qkv[" in phone.locator("#inspect .readout").first.inner_text()
    phone.focus("#tensor")
    phone.select_option("#tensor", "h.0.ln_1.weight")
    settled(phone)
    assert phone.locator("#inspect .readout").first.inner_text().strip() == ""
    assert "learned scale" in phone.locator("#inspect .column > p").first.inner_text()


def test_tokens_that_are_twice_in_the_text_have_their_positions(phone):
    phone.fill("#text", "a dog a dog a dog a dog")
    phone.wait_for_function("() => window.minigptExplorer.views()[0].ids.length === 8")
    looks = into_sight(phone, "attention").locator(".column > p").last.inner_text()
    assert looks.count("(position ") == looks.count("%") > 1


def test_a_page_of_the_site_leads_back_to_it_and_a_page_alone_leads_nowhere(visit, tmp_path):
    assert visit().locator(".home").is_hidden() and visit().locator("[data-addresses]").count() == 0
    attention = {"number": "03", "address": {"en": "lessons/03_attention.html", "ko": "ko/lessons/03_attention.html"}}
    site = {"home": {"en": "index.html", "ko": "ko/index.html"}, "lessons": {"attention": attention}}
    out = tmp_path / "explorer.html"
    job.explore(job.ExploreOptions(out=str(out)), say=lambda line: None, site=site)
    page = visit(out)
    home, lesson = page.locator(".home"), page.locator("#attention a")
    assert home.is_visible() and home.get_attribute("href") == "index.html"
    assert lesson.get_attribute("href") == "lessons/03_attention.html" and lesson.inner_text().endswith(" 03")
    page.click('[data-language="ko"]')
    assert home.get_attribute("href") == "ko/index.html"
    assert lesson.get_attribute("href") == "ko/lessons/03_attention.html" and has_hangul(lesson.inner_text())

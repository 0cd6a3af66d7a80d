"""The explorer's page in a browser: the same numbers as NumPy's in float64, nothing asked of a network, and usable."""

import base64
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from browser import chromium, watched
from helpers import error

from minigpt import models
from minigpt.learn.explorer import job
from minigpt.learn.explorer.named_pass import named_pass
from minigpt.learn.lessons import find_lessons

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
OPEN = "() => window.minigptExplorer.ready.then(() => true)"
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
    """`visit()`: the page, opened from the disk and ready. At the end it has asked for nothing, and not complained."""
    contexts = []

    def open_page(file: Path = page_file, ready: bool = True, script: str = "", **options) -> Any:
        context = watched(browser, **options)
        watch = context.__enter__()
        contexts.append((context, watch, file))
        if script:
            watch.page.add_init_script(script)
        watch.page.goto(file.as_uri())
        if ready:
            assert watch.page.evaluate(OPEN)
        return watch.page

    yield open_page
    for context, watch, file in contexts:
        elsewhere, complaints = watch.elsewhere(file.as_uri()), watch.complaints
        context.__exit__(None, None, None)
        assert elsewhere == [] and complaints == []
        assert watch.requests[0] == file.as_uri()


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
    ids = opened("gpt2")[1].encode(sixty_four_tokens())
    assert len(ids) == 64
    for which, name in enumerate(NAMES):
        times = numbers_page.evaluate(
            """([which, ids]) => {
          const { models, runPass } = window.minigptExplorer;
          const targets = [...ids.slice(1), -100];
          return [1, 2, 3, 4, 5, 6].map(() => {
            const start = performance.now();
            runPass(models[which], ids, { targets });
            return performance.now() - start;
          });
        }""",
            [which, ids],
        )
        print(f"{name}: {min(times):.0f} ms forward and backward of 64 tokens, of {[round(one) for one in times]}")
        assert min(times) < FASTEST

"""Poster and card: their numbers are those of the model, each is one page of vectors, and no text stands on another."""

import itertools
import re
import sys
from pathlib import Path

import numpy as np
import pytest

ROOT = Path(__file__).parent.parent
sys.path.append(str(ROOT / "lessons" / "poster"))

import card  # noqa: E402
import poster  # noqa: E402

from minigpt import ops  # noqa: E402
from minigpt.errors import InputError  # noqa: E402


@pytest.fixture(scope="module")
def followed():
    return poster.Followed()


def keys(table: dict) -> dict:
    """A table of words without its words."""
    return {name: keys(said) if isinstance(said, dict) else None for name, said in table.items()}


def test_both_languages_say_the_same_things_and_name_every_step():
    english, korean = map(poster.words, poster.LANGUAGES)
    assert keys(english) == keys(korean)
    assert {step.words for step in poster.STEPS} == {name for name, said in english.items() if isinstance(said, dict)}


def test_the_token_that_is_followed_stands_before_what_the_story_says_next(followed):
    assert followed.tokens[-1] == "the" and followed.word(followed.right) == "kitchen"
    assert " ".join(followed.tokens).replace(" .", ".").replace(" ,", ",") == poster.TEXT


def test_the_loss_and_the_first_gradient_are_those_of_the_last_token_alone(followed):
    assert followed.passed.loss == pytest.approx(-np.log(followed.p[followed.right]), rel=1e-6)
    one_hot = np.eye(len(followed.p))[followed.right]
    assert followed.row("logits").gradient == pytest.approx(followed.p - one_hot, abs=1e-6)
    assert not followed.passed.values["logits"].gradient[:-1].any()


def test_what_is_added_is_what_is_shown(followed):
    rows = {step.words: followed.row(step.of) for step in poster.STEPS}
    assert rows["add_1"].value == pytest.approx(rows["embedding"].value + rows["attention"].value, abs=1e-5)
    assert rows["add_2"].value == pytest.approx(rows["add_1"].value + rows["mlp"].value, abs=1e-5)
    assert rows["attention"].gradient == pytest.approx(rows["add_1"].gradient, abs=1e-7), "a sum copies its gradient"


def test_the_last_step_of_the_stream_answers_what_the_model_answers(followed):
    assert followed.answer(followed.row(followed.stream()[-1]).value) == pytest.approx(followed.p, abs=1e-6)
    with ops.using("reference"):
        logits, _ = followed.model.forward(np.array([followed.ids]))
    assert poster.softmax(logits[0, -1]) == pytest.approx(followed.p, abs=1e-6)


def figure_of(page: str, followed):
    """The figure of the poster in a language, or of the card."""
    try:
        poster.find_font("en" if page == "en" else "ko")
    except InputError as error:
        pytest.skip(str(error))
    return card.Card().figure if page == "card" else poster.Poster(followed, poster.words(page)).figure


@pytest.mark.parametrize("page", [*poster.LANGUAGES, "card"])
def test_no_text_stands_on_another_or_leaves_the_page(page, followed):
    figure = figure_of(page, followed)
    renderer = figure.canvas.get_renderer()
    width, height = figure.bbox.size
    places = []
    for axes in figure.axes:
        for text in axes.texts:
            if text.get_text():
                places.append((text.get_text(), text.get_window_extent(renderer)))
    poster.plot.plt.close(figure)
    assert len(places) > 100
    outside = [text for text, box in places if box.x0 < 0 or box.y0 < 0 or box.x1 > width or box.y1 > height]
    assert not outside
    covered = [(a, b) for (a, one), (b, two) in itertools.combinations(places, 2) if one.overlaps(two)]
    assert not covered


@pytest.mark.parametrize("page, millimetres", [("en", (594, 420)), ("card", (297, 210))])
def test_the_file_is_one_page_of_paper_without_pixels(page, millimetres, tmp_path, followed):
    path = tmp_path / "page.pdf"
    poster.save(figure_of(page, followed), path, "a page")
    content = path.read_bytes()
    sizes = re.findall(rb"/MediaBox \[ ?0 0 ([\d.]+) ([\d.]+) ?\]", content)
    ((width, height),) = {tuple(round(float(side) / 72 * 25.4) for side in size) for size in sizes}
    assert (width, height) == millimetres and len(re.findall(rb"/Type /Page\b", content)) == 1
    assert b"/Subtype /Image" not in content and len(content) < 1_000_000


def test_the_card_has_every_letter_and_every_term_of_both_models(followed):
    figure = figure_of("card", followed)
    said = [text.get_text() for text in figure.axes[0].texts]
    poster.plot.plt.close(figure)
    assert [letter for letter, *_ in card.letters()] == ["B", "T", "C", "NH", "D", "F", "V"]
    assert {"40,478", "perplexity", "퍼플렉서티(혼란도)", "residual stream", "잔차 스트림"} <= set(said)
    table = (ROOT / "lessons" / "README.md").read_text(encoding="utf-8").partition("## Terms")[2]
    early = re.findall(r"^\|[^|]+\|[^|]+\| (0\d|1[0-7]) \|", table, re.MULTILINE)
    assert len(card.terms()) == len(early) > 80


def test_the_shapes_of_the_card_are_those_of_the_model(followed):
    config = followed.model.config
    heads = config.n_head
    sizes = {"T": len(followed.ids), "C": config.n_embd, "NH": heads, "V": config.vocab_size}
    sizes |= {"D": config.n_embd // heads, "F": 4 * config.n_embd}
    found = {name: followed.passed.values[of].value.shape for name, of in (
        ("residual stream x", "h.0.x"), ("scores s, shares p", "h.0.attn.p"), ("inside the MLP", "h.0.mlp.f"),
        ("logits z", "logits"),
    )}  # fmt: skip
    query = followed.passed.values["h.0.attn.qkv"].value[None, :, : config.n_embd]
    found["q, k, v of all heads"] = ops.split_heads(query, heads).shape[1:]
    found["ids, targets"] = (len(followed.ids),)
    for name, shape in card.SHAPES:
        letters = shape.strip("()").split(", ")
        assert letters[0] == "B" and tuple(sizes[letter] for letter in letters[1:]) == found[name], name


def test_a_language_that_no_font_can_draw_is_refused(monkeypatch, tmp_path):
    monkeypatch.setattr(poster.importlib.util, "find_spec", lambda name: None)
    monkeypatch.setattr(poster.plot, "KOREAN_FONTS", ())
    with pytest.raises(InputError, match="no font here has Korean letters"):
        poster.write("ko", tmp_path / "poster.pdf")
    assert not list(tmp_path.iterdir())

"""The mark of a lesson that was read: kept in the browser, shown beside links, taken back, and in both languages."""

import sys
from html import escape
from pathlib import Path

import pytest

SITE = Path(__file__).parent.parent / "lessons" / "site"
sys.path.append(str(SITE))

import course  # noqa: E402
from browser import chromium, watched  # noqa: E402

LINKS = '<a href="../lessons/03_attention.html">03</a><a href="../lessons/09_adam.html">09</a>'
PAGE = """<!doctype html><html lang="{language}"><meta charset="utf-8"><title>A page</title>
<nav class="sidebar-tree">{links}</nav><div class="toc-title-container">Here</div>
<article style="height: 4000px"><h1>A page</h1><div class="facts">{facts}</div><ul><li>{links}</li></ul>
<details class="deeper"><summary>More <span class="minutes">Deeper, 20 min</span></summary>x</details></article>
<script src="progress.js" {attributes}></script>"""


@pytest.fixture
def pages(tmp_path) -> Path:
    """A folder with two lessons and the list of the lessons in each language."""
    for language, folder in (("en", "lessons"), ("ko", "ko/lessons")):
        (tmp_path / folder).mkdir(parents=True)
        (tmp_path / folder / "progress.js").write_bytes((SITE / "static" / "progress.js").read_bytes())
        facts = course.WORDS[language]["read_core"].format(core=25, minutes=45)
        attributes = " ".join(f'{name}="{escape(value)}"' for name, value in course.progress(language).items())
        text = PAGE.format(language=language, links=LINKS, facts=facts, attributes=attributes)
        for name in ("03_attention", "09_adam", "index"):
            (tmp_path / folder / f"{name}.html").write_text(text, encoding="utf-8")
    return tmp_path


@pytest.fixture(scope="module")
def browser():
    with chromium() as running:
        yield running


def marks(page) -> list[str]:
    """The links of a page that are marked, each with what a screen reader says of it."""
    return page.eval_on_selector_all(
        "a:has(.is-read)", "links => links.map(a => a.firstChild.data + ' ' + a.lastChild.ariaLabel)"
    )


def test_both_languages_say_the_same():
    english, korean = (course.WORDS[language]["progress"] for language in ("en", "ko"))
    assert english.keys() == korean.keys()
    assert course.progress("en")["data-lessons"] == course.progress("ko")["data-lessons"] == "39"


@pytest.mark.slow
def test_a_lesson_is_marked_by_a_key_on_every_page_and_taken_back(browser, pages):
    with watched(browser) as watch:
        page = watch.page
        page.goto((pages / "lessons" / "03_attention.html").as_uri())
        button = page.get_by_role("button", name="I have read this lesson")
        assert button.get_attribute("aria-pressed") == "false" and marks(page) == []
        button.focus()
        page.keyboard.press("Enter")
        assert button.get_attribute("aria-pressed") == "true" and marks(page) == ["03 read"], "not in its text"
        page.goto((pages / "lessons" / "index.html").as_uri())
        assert marks(page) == ["03 read"] * 2
        assert page.locator(".read-of-all").text_content().startswith("Read: 1 of 39 lessons.")
        page.goto((pages / "ko" / "lessons" / "09_adam.html").as_uri())
        assert marks(page) == ["03 읽음"], "an edition knows what was read in the other one"
        page.goto((pages / "ko" / "lessons" / "03_attention.html").as_uri())
        button = page.get_by_role("button", name="이 레슨을 읽었습니다")
        assert button.get_attribute("aria-pressed") == "true"
        button.click()
        assert button.get_attribute("aria-pressed") == "false" and marks(page) == []
        page.goto((pages / "lessons" / "index.html").as_uri())
        assert marks(page) == [] and page.locator(".read-of-all").text_content() == ""
        assert watch.complaints == [] and watch.elsewhere("file://") == []


@pytest.mark.slow
def test_without_storage_nothing_is_shown_and_what_is_no_list_is_replaced(browser, pages):
    refuse = "Object.defineProperty(window, 'localStorage', { get() { throw new DOMException('no'); } })"
    with watched(browser) as watch:
        watch.page.add_init_script(refuse)
        watch.page.goto((pages / "lessons" / "03_attention.html").as_uri())
        assert watch.page.locator("button").count() == 0 and marks(watch.page) == [] and watch.complaints == []
    for kept in ("{", "3", '{"03": 1}'):
        with watched(browser) as watch:
            watch.page.goto((pages / "lessons" / "03_attention.html").as_uri())
            watch.page.evaluate("kept => localStorage.setItem('minigpt-read', kept)", kept)
            watch.page.reload()
            watch.page.get_by_role("button").click()
            assert marks(watch.page) == ["03 read"] and watch.complaints == []


@pytest.mark.slow
def test_the_minutes_left_fall_to_0_and_grow_with_an_open_fold(browser, pages):
    with watched(browser, height=800) as watch:
        watch.page.goto((pages / "ko" / "lessons" / "03_attention.html").as_uri())
        left = watch.page.locator(".minutes-left")
        assert left.text_content() in ("20분 남음", "21분 남음"), "of 25 minutes, four fifths are below the screen"
        watch.page.evaluate("document.querySelector('details').open = true; scrollTo(0, 1)")
        watch.page.wait_for_function("/3[678]/.test(document.querySelector('.minutes-left').textContent)")
        watch.page.evaluate("scrollTo(0, 10000)")
        watch.page.wait_for_function("document.querySelector('.minutes-left').textContent === '0분 남음'")

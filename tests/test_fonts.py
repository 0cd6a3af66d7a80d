"""The font of the site: the Hangul of the pages and nothing else; a browser takes it from a disk."""

import base64
import io
import os
import re
import sys
from pathlib import Path

import pytest

if os.environ.get("MINIGPT_NEED_SITE") != "1":
    for library in ("brotli", "koreanize_matplotlib"):
        pytest.importorskip(library, reason=f"{library} is not installed (extra site)")
SITE = Path(__file__).parent.parent / "lessons" / "site"
sys.path.append(str(SITE))

import fonts  # noqa: E402
from browser import chromium, watched  # noqa: E402
from fontTools.ttLib import TTFont  # noqa: E402

TEXTS = {"index.html": "한글, 한국어", "link.html": "한국어판", "ko/index.html": "기울기", "explorer.html": "탐색기 ㄱ"}


@pytest.fixture(scope="module")
def site(tmp_path_factory) -> Path:
    """Pages in two languages with the font that was made for them."""
    folder = tmp_path_factory.mktemp("site")
    link = '<link rel="stylesheet" href="_static/hangul.css">'
    for name, text in TEXTS.items():
        (folder / name).parent.joinpath("_static").mkdir(parents=True, exist_ok=True)
        head = f'<!doctype html><html><head><meta charset="utf-8">{"" if name == "explorer.html" else link}</head>'
        (folder / name).write_text(f"{head}<p>{text}</p>", encoding="utf-8")
    fonts.write(folder)
    return folder


LETTERS = {
    "_static/hangul.css": "한글국어판",
    "link.html": "한국어판",
    "ko/_static/hangul.css": "기울",
    "explorer.html": "탐색기ㄱ",
}


@pytest.mark.parametrize("name", LETTERS)
def test_the_font_has_the_letters_of_the_pages_and_a_name_of_its_own(site, name):
    data = re.search(r"base64,([^\"]+)", (site / name).read_text(encoding="utf-8")).group(1)
    font = TTFont(io.BytesIO(base64.b64decode(data)))
    assert font.flavor == "woff2" and set(map(chr, font.getBestCmap())) == set(LETTERS[name])
    assert "Nanum" not in str(font["name"].getDebugName(1)) + str(font["name"].getDebugName(4))
    assert "NHN" in font["name"].getDebugName(0), "who drew it"


def test_only_a_page_with_more_korean_than_a_link_loads_the_style_sheet(site):
    linked = [name for name in TEXTS if fonts.NAME in (site / name).read_text(encoding="utf-8")]
    assert linked == ["index.html", "ko/index.html"]


def test_the_license_of_the_font_lies_beside_it():
    text = (SITE / "static" / "hangul-license.txt").read_text(encoding="utf-8")
    assert "NAVER Corporation" in text and "SIL OPEN FONT LICENSE" in text and fonts.NAME in text


@pytest.mark.slow
@pytest.mark.parametrize("name", TEXTS)
def test_a_browser_loads_it_from_a_disk(site, name):
    with chromium() as browser, watched(browser) as watch:
        watch.page.goto((site / name).as_uri())
        asked = f"document.fonts.load('16px \"{fonts.FAMILY}\"', '한').then(found => found[0].status)"
        assert watch.page.evaluate(asked) == "loaded" and watch.complaints == []
